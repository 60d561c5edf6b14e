// Headers, metadata and constants of the fabric pipeline.
// SPDX-License-Identifier: Apache-2.0
#ifndef MRC_HEADERS_P4
#define MRC_HEADERS_P4

typedef bit<9>   port_t;
typedef bit<48>  mac_t;
typedef bit<128> ip6_t;
typedef bit<6>   dscp_t;
typedef bit<16>  group_t;
typedef bit<4>   cause_t;

const bit<16> ETHERTYPE_IPV6 = 0x86DD;
const bit<8>  NEXT_UDP       = 17;
const bit<8>  NEXT_IPV6      = 41;     // IPv6 in IPv6: the SRv6 encapsulation
const bit<8>  NEXT_ROUTING   = 43;
// How an SRH with one segment and IPv6 behind it begins: next header 41, length 2 (units of 8
// bytes after the first 8), routing type 4.
const bit<24> SRH_START      = 0x290204;
const bit<16> UDP_ROCE       = 4791;
const bit<16> UDP_MRC        = 4971;   // as printed in the specification; both are accepted

const port_t  DROP_PORT        = 511;
const bit<3>  CONTROL_PRIORITY = 1;    // strictly before data, priority 0
const bit<2>  ECN_NOT_ECT      = 0;
const bit<2>  ECN_CE           = 3;

// A limit that no queue reaches: the packet is admitted whatever the occupancy.
const bit<32> NO_LIMIT = 0xFFFFFFFF;

// CRC-32 of these four bytes is 1. See "guard" in ingress.p4.
const bit<32> GUARD_KEY = 0xDC0CA8B6;

// Why a packet was dropped: the low four bits of an index of the counter `drops`.
const cause_t CAUSE_NONE      = 0;
const cause_t CAUSE_NOT_IPV6  = 1;     // another ethertype, or too short for an IPv6 header
const cause_t CAUSE_MALFORMED = 2;     // the version field is not 6
const cause_t CAUSE_HOP_LIMIT = 3;     // hop limit 0 or 1 on arrival
const cause_t CAUSE_NO_ROUTE  = 4;     // no entry of `route` matches
const cause_t CAUSE_NO_UPLINK = 5;     // a failover group without a live member, or no such group
const cause_t CAUSE_DISCARDED = 6;     // an entry of `route` says so
const cause_t CAUSE_NO_PATH   = 7;     // structured EV: its bits name no uplink of this switch
const cause_t CAUSE_LIST_END  = 8;     // SRv6: the uSID list ended at this switch
const cause_t CAUSE_NOT_ENCAP = 9;     // SRv6 fabric: an MRC packet without outer header

header ethernet_h {
    mac_t   dst;
    mac_t   src;
    bit<16> ether_type;
}

header ipv6_h {
    bit<4>  version;
    dscp_t  dscp;
    bit<2>  ecn;
    bit<20> flow_label;
    bit<16> payload_length;
    bit<8>  next_header;
    bit<8>  hop_limit;
    ip6_t   src;
    ip6_t   dst;
}

// Segment routing header with one segment (RFC 8754), the only form that is parsed.
header srh_h {
    bit<8>  next_header;
    bit<8>  hdr_ext_len;
    bit<8>  routing_type;
    bit<8>  segments_left;
    bit<8>  last_entry;
    bit<8>  flags;
    bit<16> tag;
    ip6_t   segment;
}

header udp_h {
    bit<16> source_port;
    bit<16> destination_port;
    bit<16> length;
    bit<16> checksum;
}

// Base transport header, reference section 1.
header bth_h {
    bit<8>  opcode;
    bit<1>  m;
    bit<1>  se;
    bit<2>  pad;
    bit<4>  tver;
    bit<16> p_key;
    bit<8>  var_res;
    bit<24> dqp;
    bit<1>  a;
    bit<1>  r;
    bit<1>  rtx;
    bit<1>  ts;
    bit<4>  inv_res;
    bit<24> psn;
}

// Message, time stamp and RDMA headers of data packets, reference section 2.2.
header meth_h {
    bit<16> rqmsn;
    bit<16> msn;
}

header tseth_h {
    bit<16> tx_timestamp;
    bit<1>  tsr;
    bit<11> res;
    bit<4>  ftype;
}

header reth_h {
    bit<64> va;
    bit<32> r_key;
    bit<32> dmalen;
}

struct headers_t {
    ethernet_h ethernet;
    ipv6_h     ipv6;        // the outer one, when there are two
    srh_h      srh;
    ipv6_h     inner;
    udp_h      udp;
    bth_h      bth;
    meth_h     meth;
    tseth_h    tseth;
    reth_h     reth;
}

struct metadata_t {
    cause_t cause;          // why to drop; CAUSE_NONE forwards
    group_t group;          // uplinks to choose among; 0: the route named a port
    bit<16> path;           // structured EV: this hop's bits
    bit<1>  steered;        // ... and they choose the uplink
    bit<1>  others_only;    // the route is for what is not MRC
    bit<1>  own_sid;        // the destination began with a uSID of this switch
    bit<16> source_port;    // entropy of the transport header, 0 without one
    bit<32> salt;           // of this switch
    bit<32> selector_key;   // the only input of both selectors' CRC-32
    bit<1>  trimmable;      // the class of the packet allows trimming
    bit<1>  trim;           // ... and the queue is too long
    bit<1>  lasthop;        // the egress port faces a host
    bit<32> trim_limit;     // occupancy from which to trim, packets
    bit<32> trim_length;    // bytes kept of a trimmed packet, from the first of Ethernet
    bit<32> trim_patience;  // microseconds after which a queue that does not move is not believed
    dscp_t  trim_dscp;      // codepoint of a trimmed packet
    bit<19> ecn_kmin;       // depth up to which nothing is marked, packets
    bit<19> ecn_kmax;       // depth from which everything is marked; 0: no marking on this port
    bit<32> ecn_slope;      // probability per packet of depth above kmin, in 1/65536
}

#endif
