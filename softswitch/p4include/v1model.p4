// The v1model architecture of bmv2's simple_switch: names, types and order are its interface.
// Copyright the mrclab authors. SPDX-License-Identifier: Apache-2.0
//
// With V1MODEL_VERSION >= 20200408 the index types of counters, meters and registers are
// free (type parameters); before, and by default, they are bit<32>.

#ifndef _V1_MODEL_P4_
#define _V1_MODEL_P4_

#include "core.p4"

#ifndef V1MODEL_VERSION
#define V1MODEL_VERSION 20180101
#endif

const bit<32> __v1model_version = V1MODEL_VERSION;

match_kind {
    range,
    optional,   // exact value or don't care
    selector    // not matched: input of the hash of an action selector
}

#if V1MODEL_VERSION >= 20200408
typedef bit<9> PortId_t;
#define MRCLAB_PORT PortId_t
#define MRCLAB_INDEX I
#define MRCLAB_INDEX_PARAM <I>
#define MRCLAB_REGISTER_PARAMS <T, I>
#else
#define MRCLAB_PORT bit<9>
#define MRCLAB_INDEX bit<32>
#define MRCLAB_INDEX_PARAM
#define MRCLAB_REGISTER_PARAMS <T>
#endif

// What the switch and the program tell each other about a packet.
@metadata @name("standard_metadata")
struct standard_metadata_t {
    MRCLAB_PORT ingress_port;
    MRCLAB_PORT egress_spec;    // where ingress sends it; 511 drops
    MRCLAB_PORT egress_port;    // egress only: where it goes
    bit<32> instance_type;      // 0 normal, 1 ingress clone, 2 egress clone, 4 recirculated ...
    bit<32> packet_length;
    @alias("queueing_metadata.enq_timestamp")
    bit<32> enq_timestamp;      // microseconds
    @alias("queueing_metadata.enq_qdepth")
    bit<19> enq_qdepth;         // packets in the queue at enqueue
    @alias("queueing_metadata.deq_timedelta")
    bit<32> deq_timedelta;      // microseconds in the queue
    @alias("queueing_metadata.deq_qdepth")
    bit<19> deq_qdepth;
    @alias("intrinsic_metadata.ingress_global_timestamp")
    bit<48> ingress_global_timestamp;
    @alias("intrinsic_metadata.egress_global_timestamp")
    bit<48> egress_global_timestamp;
    @alias("intrinsic_metadata.mcast_grp")
    bit<16> mcast_grp;
    @alias("intrinsic_metadata.egress_rid")
    bit<16> egress_rid;
    bit<1> checksum_error;      // a verify_checksum failed
    error parser_error;
    @alias("intrinsic_metadata.priority")
    bit<3> priority;            // egress queue, the higher the sooner
}

// ---- state

enum CounterType { packets, bytes, packets_and_bytes }

extern counter MRCLAB_INDEX_PARAM {
    counter(bit<32> size, CounterType type);
    void count(in MRCLAB_INDEX index);
}

extern direct_counter {
    direct_counter(CounterType type);
    void count();
}

#define V1MODEL_METER_COLOR_GREEN  0
#define V1MODEL_METER_COLOR_YELLOW 1
#define V1MODEL_METER_COLOR_RED    2

enum MeterType { packets, bytes }

extern meter MRCLAB_INDEX_PARAM {
    meter(bit<32> size, MeterType type);
    void execute_meter<T>(in MRCLAB_INDEX index, out T result);
}

extern direct_meter<T> {
    direct_meter(MeterType type);
    void read(out T result);
}

extern register MRCLAB_REGISTER_PARAMS {
    register(bit<32> size);
    @noSideEffects
    void read(out T result, in MRCLAB_INDEX index);
    void write(in MRCLAB_INDEX index, in T value);
}

// ---- table implementations

enum HashAlgorithm { crc32, crc32_custom, crc16, crc16_custom, random, identity, csum16, xor16 }

extern action_profile {
    action_profile(bit<32> size);
}

extern action_selector {
    action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> outputWidth);
}

// ---- functions

extern void random<T>(out T result, in T lo, in T hi);

extern void digest<T>(in bit<32> receiver, in T data);

@deprecated("Please use mark_to_drop(standard_metadata) instead.")
extern void mark_to_drop();
@pure
extern void mark_to_drop(inout standard_metadata_t standard_metadata);

@pure
extern void hash<O, T, D, M>(out O result, in HashAlgorithm algo, in T base, in D data, in M max);

@deprecated("Please use verify_checksum/update_checksum instead.")
extern Checksum16 {
    Checksum16();
    bit<16> get<D>(in D data);
}

extern void verify_checksum<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
@pure
extern void update_checksum<T, O>(in bool condition, in T data, inout O checksum,
                                  HashAlgorithm algo);
extern void verify_checksum_with_payload<T, O>(in bool condition, in T data, in O checksum,
                                               HashAlgorithm algo);
@noSideEffects
extern void update_checksum_with_payload<T, O>(in bool condition, in T data, inout O checksum,
                                               HashAlgorithm algo);

enum CloneType { I2E, E2E }

extern void clone(in CloneType type, in bit<32> session);
extern void clone_preserving_field_list(in CloneType type, in bit<32> session, bit<8> index);
@deprecated("Please use 'clone_preserving_field_list' instead")
extern void clone3<T>(in CloneType type, in bit<32> session, in T data);

extern void resubmit_preserving_field_list(bit<8> index);
@deprecated("Please use 'resubmit_preserving_field_list' instead")
extern void resubmit<T>(in T data);

extern void recirculate_preserving_field_list(bit<8> index);
@deprecated("Please use 'recirculate_preserving_field_list' instead")
extern void recirculate<T>(in T data);

extern void truncate(in bit<32> length);

extern void assert(in bool check);
extern void assume(in bool check);

extern void log_msg(string msg);
extern void log_msg<T>(string msg, in T data);

// ---- the six blocks

parser Parser<H, M>(packet_in b, out H parsedHdr, inout M meta,
                    inout standard_metadata_t standard_metadata);

control VerifyChecksum<H, M>(inout H hdr, inout M meta);

@pipeline
control Ingress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);

@pipeline
control Egress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);

control ComputeChecksum<H, M>(inout H hdr, inout M meta);

@deparser
control Deparser<H>(packet_out b, in H hdr);

package V1Switch<H, M>(Parser<H, M> p,
                       VerifyChecksum<H, M> vr,
                       Ingress<H, M> ig,
                       Egress<H, M> eg,
                       ComputeChecksum<H, M> ck,
                       Deparser<H> dep);

#endif
