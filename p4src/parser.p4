// Parser and deparser of the fabric pipeline.
// SPDX-License-Identifier: Apache-2.0
#ifndef MRC_PARSER_P4
#define MRC_PARSER_P4

// A packet too short for a header keeps the headers before it and is forwarded by those:
// a trimmed packet may end anywhere after BTH.
parser FabricParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV6: parse_ipv6;
            default: accept;
        }
    }

    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        transition select(hdr.ipv6.next_header) {
            NEXT_UDP: parse_udp;
            NEXT_IPV6: parse_inner;
            NEXT_ROUTING: parse_routing;
            default: accept;
        }
    }

    // Bytes of a routing header: next header, length, type. Any other than an SRH with one
    // segment stays with the payload.
    state parse_routing {
        transition select(packet.lookahead<bit<24>>()) {
            SRH_START: parse_srh;
            default: accept;
        }
    }

    state parse_srh {
        packet.extract(hdr.srh);
        transition parse_inner;
    }

    state parse_inner {
        packet.extract(hdr.inner);
        transition select(hdr.inner.next_header) {
            NEXT_UDP: parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        meta.source_port = hdr.udp.source_port;
        transition select(hdr.udp.destination_port) {
            UDP_ROCE: parse_bth;
            UDP_MRC: parse_bth;
            default: accept;
        }
    }

    // C6..CB are the six WRITE opcodes; they alone carry METH, [TSETH], RETH.
    state parse_bth {
        packet.extract(hdr.bth);
        transition select(hdr.bth.opcode) {
            0xC6 &&& 0xFE: parse_meth;
            0xC8 &&& 0xFC: parse_meth;
            default: accept;
        }
    }

    state parse_meth {
        packet.extract(hdr.meth);
        transition select(hdr.bth.ts) {
            1: parse_tseth;
            default: parse_reth;
        }
    }

    state parse_tseth {
        packet.extract(hdr.tseth);
        transition parse_reth;
    }

    state parse_reth {
        packet.extract(hdr.reth);
        transition accept;
    }
}

control FabricDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.srh);
        packet.emit(hdr.inner);
        packet.emit(hdr.udp);
        packet.emit(hdr.bth);
        packet.emit(hdr.meth);
        packet.emit(hdr.tseth);
        packet.emit(hdr.reth);
    }
}

// IPv6 has no header checksum, MRC sends UDP checksum 0, and the iCRC leaves out what a
// switch changes: nothing to verify or update.
control FabricVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control FabricComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

#endif
