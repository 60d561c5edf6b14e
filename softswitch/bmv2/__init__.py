"""Talking to bmv2's simple_switch: Thrift for its tables and queues, nanomsg for packets."""
