// The P4-16 core library as this compiler knows it (language specification, appendix on core.p4).
// Copyright the mrclab authors. SPDX-License-Identifier: Apache-2.0

#ifndef _CORE_P4_
#define _CORE_P4_

// The order fixes the numbers errors get in the bmv2 JSON.
error {
    NoError,
    PacketTooShort,         // extract or advance past the end of the packet
    NoMatch,                // select without a matching case
    StackOutOfBounds,       // header stack element that does not exist
    HeaderTooShort,         // varbit field longer than its maximum
    ParserTimeout,
    ParserInvalidArgument
}

// The packet a parser reads.
extern packet_in {
    void extract<T>(out T hdr);
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    T lookahead<T>();
    void advance(in bit<32> sizeInBits);
    bit<32> length();
}

// The packet a deparser writes.
extern packet_out {
    void emit<T>(in T hdr);
}

// Parser only: when the check fails, sets the parser error and stops parsing.
extern void verify(in bool check, in error toSignal);

// Compile-time checks.
extern bool static_assert(bool check, string message);
extern bool static_assert(bool check);

@noWarn("unused")
action NoAction() {}

match_kind {
    exact,
    ternary,
    lpm
}

#endif
