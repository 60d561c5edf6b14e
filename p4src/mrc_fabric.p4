// The fabric pipeline: one program for every switch; roles differ in table entries only.
//
// IPv6 by longest prefix, per-packet spraying over uplink groups, failover without the
// controller, ECN between two queue depths, trimming instead of dropping, and counters for
// every port and cause. README.md beside this file lists tables, actions and counters.
//
// SPDX-License-Identifier: Apache-2.0
#include <core.p4>
#include <v1model.p4>

#include "headers.p4"
#include "parser.p4"
#include "ingress.p4"
#include "egress.p4"

V1Switch(FabricParser(), FabricVerifyChecksum(), FabricIngress(), FabricEgress(),
         FabricComputeChecksum(), FabricDeparser()) main;
