-- Wireshark dissector for MRC (Multipath Reliable Connection, OCP 1.0).
--
-- Install: copy into Wireshark's personal Lua plug-in folder (Help, About, Folders), or run
--   wireshark -X lua_script:tools/wireshark/mrc.lua capture.pcapng
--
-- Fields are named as in `./lab decode --json`: mrc.bth.psn, mrc.seth.cack_psn, ...
-- Preferences: UDP ports, EV packing order, iCRC check, DSCP of trimmed packets.

local mrc = Proto("mrc", "Multipath Reliable Connection")

local BTH_BYTES, ICRC_BYTES = 12, 4
local OPCODE_MRC = 6 -- the top three bits

local opcodes = {
  [0xC6] = "WRITE First", [0xC7] = "WRITE Middle", [0xC8] = "WRITE Last",
  [0xC9] = "WRITE Last with Immediate", [0xCA] = "WRITE Only",
  [0xCB] = "WRITE Only with Immediate", [0xD1] = "Acknowledge",
  [0xD8] = "Endpoint Request", [0xD9] = "Endpoint Response",
  [0xDC] = "Reliability SACK", [0xDD] = "Reliability NACK", [0xDE] = "Reliability Probe Request",
}
local syndromes = {
  [0x1F] = "ACK", [0x60] = "NAK PSN sequence", [0x61] = "NAK invalid request",
  [0x62] = "NAK remote access", [0x63] = "NAK remote operation",
}
local feedback = { [0] = "NONE", [1] = "SKIP_ONCE", [2] = "ALWAYS_SKIP", [3] = "reserved" }
local nack_reasons = {
  [0x01] = "TRIMMED", [0x02] = "TRIMMED_LASTHOP", [0x06] = "NO_BITMAP", [0x07] = "NO_PKT_BUFFER",
  [0x0A] = "NO_RESOURCE", [0x0B] = "PSN_OOR_WINDOW", [0x19] = "UNEXP_EVENT",
}
local endpoint_ops = { [0] = "PORT_STATUS_UPDATE", [1] = "EV_PROBE" }

-- Each header: its size and { name, first bit, bits, options }. Reserved fields are named `res*`.
local DEC, HEX = base.DEC, base.HEX
local headers = {
  bth = { title = "Base Transport Header", size = 12, fields = {
    { "opcode", 0, 8, { base = HEX, values = opcodes } }, { "m", 8, 1 }, { "se", 9, 1 },
    { "pad", 10, 2 }, { "tver", 12, 4 }, { "p_key", 16, 16, { base = HEX } },
    { "var_res", 32, 8, { reserved = true } }, { "dqp", 40, 24, { base = HEX } },
    { "a", 64, 1 }, { "r", 65, 1, { reserved = true } }, { "rtx", 66, 1 }, { "ts", 67, 1 },
    { "inv_res", 68, 4, { reserved = true } }, { "psn", 72, 24 } } },
  meth = { title = "Message header (METH)", size = 4, fields = {
    { "rqmsn", 0, 16 }, { "msn", 16, 16 } } },
  tseth = { title = "Timestamp (TSETH)", size = 4, fields = {
    { "tx_timestamp", 0, 16 }, { "tsr", 16, 1 }, { "res", 17, 11 }, { "ftype", 28, 4 } } },
  reth = { title = "RDMA header (RETH)", size = 16, fields = {
    { "va", 0, 64, { base = HEX } }, { "r_key", 64, 32, { base = HEX } },
    { "dmalen", 96, 32 } } },
  immdt = { title = "Immediate data (ImmDt)", size = 4, fields = {
    { "imm", 0, 32, { base = HEX } } } },
  aeth = { title = "ACK header (AETH)", size = 4, fields = {
    { "syndrome", 0, 8, { base = HEX, values = syndromes } }, { "msn", 8, 24 } } },
  seth = { title = "SACK header (SETH)", size = 28, fields = {
    { "type", 0, 4 }, { "nxt", 4, 5 }, { "m", 9, 2, { values = feedback } }, { "res1", 11, 3 },
    { "pr", 14, 1 }, { "res2", 15, 1 }, { "ack_psn_offset", 16, 16, { signed = true } },
    { "probe_id", 16, 16, { base = HEX } }, { "entropy", 32, 32, { base = HEX } },
    { "spdcid", 64, 16 }, { "dpdcid", 80, 16 }, { "res3", 96, 8 }, { "cack_psn", 104, 24 },
    { "cc_type", 128, 4 }, { "cc_flags", 132, 4 }, { "mpr", 136, 8 },
    { "sack_offset", 144, 16, { signed = true } },
    { "sack_bitmap", 160, 64, { base = HEX } } } },
  cc_state = { title = "Congestion state (CC_STATE)", size = 8, fields = {
    { "tx_timestamp", 0, 16 }, { "res", 16, 1 }, { "ooo_count", 17, 15 },
    { "restore_cwnd", 32, 1 }, { "rcv_cwnd_pen", 33, 7 }, { "rcvd_bytes", 40, 24 } } },
  neth = { title = "NACK header (NETH)", size = 20, fields = {
    { "type", 0, 4 }, { "nxt", 4, 5 }, { "res1", 9, 7 },
    { "nack_reason", 16, 8, { base = HEX, values = nack_reasons } },
    { "vendor_info", 24, 8, { base = HEX } }, { "entropy", 32, 32, { base = HEX } },
    { "spdcid", 64, 16 }, { "dpdcid", 80, 16 }, { "res2", 96, 8 }, { "nack_psn", 104, 24 },
    { "cc_type", 128, 4 }, { "cc_flags", 132, 4 }, { "res3", 136, 8 },
    { "tx_timestamp", 144, 16 } } },
  peth = { title = "Probe header (PETH)", size = 16, fields = {
    { "type", 0, 4 }, { "nh", 4, 5 }, { "res1", 9, 7 }, { "res2", 16, 8 },
    { "vendor_info", 24, 8, { base = HEX } }, { "probe_id", 32, 16, { base = HEX } },
    { "res3", 48, 16 }, { "spdcid", 64, 16 }, { "dpdcid", 80, 16 }, { "tx_timestamp", 96, 16 },
    { "tsr", 112, 1 }, { "res4", 113, 11 }, { "ftype", 124, 4 } } },
  erth = { title = "Endpoint request header (ERTH)", size = 16, fields = {
    { "type", 0, 4 }, { "nxt", 4, 5 }, { "res1", 9, 5 },
    { "op", 14, 2, { values = endpoint_ops } }, { "res2", 16, 8 },
    { "vendor_info", 24, 8, { base = HEX } }, { "port_status_mask", 32, 32, { base = HEX } },
    { "res3", 64, 32 }, { "tx_timestamp", 96, 16 }, { "tsr", 112, 1 }, { "res4", 113, 11 },
    { "ftype", 124, 4 } } },
  eeth = { title = "Endpoint response header (EETH)", size = 36, fields = {
    { "type", 0, 4 }, { "nxt", 4, 5 }, { "res1", 9, 3 },
    { "op", 12, 2, { values = endpoint_ops } }, { "res2", 14, 210 },
    { "tx_timestamp", 224, 16 }, { "res3", 240, 48 } } },
}

-- Headers after BTH by opcode (reference, section 2.1).
local control = {
  [0xD1] = { "aeth" }, [0xD8] = { "erth" }, [0xD9] = { "eeth" },
  [0xDC] = { "seth", "cc_state" }, [0xDD] = { "neth" }, [0xDE] = { "peth" },
}

local integer_of = {
  [1] = ProtoField.uint8, [2] = ProtoField.uint16, [3] = ProtoField.uint24,
  [4] = ProtoField.uint32, [8] = ProtoField.uint64,
}

local all_fields, by_name = {}, {}

local function declare(abbrev, field)
  all_fields[#all_fields + 1] = field
  by_name[abbrev] = field
end

-- A reserved field wider than an integer, or over bytes that no integer type has.
local function is_raw(bits, bytes)
  return bits > 64 or integer_of[bytes] == nil
end

for key, header in pairs(headers) do
  header.field = ProtoField.none("mrc." .. key, header.title)
  declare(key, header.field)
  for _, f in ipairs(header.fields) do
    local name, first, bits, options = f[1], f[2], f[3], f[4] or {}
    local from, to = math.floor(first / 8), math.floor((first + bits - 1) / 8)
    f.from, f.bytes = from, to - from + 1
    f.reserved = options.reserved or name:match("^res%d?$") ~= nil
    local abbrev = "mrc." .. key .. "." .. name
    if is_raw(bits, f.bytes) then
      f.raw = true
      declare(key .. "." .. name, ProtoField.bytes(abbrev, name))
    elseif options.signed then
      declare(key .. "." .. name, ProtoField.int16(abbrev, name, DEC))
    else
      local shift = f.bytes * 8 - first % 8 - bits
      local mask = nil
      if bits < f.bytes * 8 then
        mask = (2 ^ bits - 1) * 2 ^ shift
      end
      declare(key .. "." .. name,
        integer_of[f.bytes](abbrev, name, options.base or DEC, options.values, mask))
    end
    f.first, f.bits = first, bits
  end
end

declare("ev", ProtoField.uint32("mrc.ev", "Entropy value (EV)", HEX))
declare("payload", ProtoField.bytes("mrc.payload", "payload"))
declare("pad_bytes", ProtoField.bytes("mrc.pad_bytes", "pad_bytes"))
declare("icrc", ProtoField.uint32("mrc.icrc", "icrc", HEX))
declare("icrc_ok", ProtoField.bool("mrc.icrc_ok", "icrc_ok"))
declare("trimmed", ProtoField.bool("mrc.trimmed", "trimmed by a switch"))
mrc.fields = all_fields

local expert_icrc = ProtoExpert.new("mrc.bad_icrc", "Wrong iCRC",
  expert.group.CHECKSUM, expert.severity.ERROR)
local expert_length = ProtoExpert.new("mrc.bad_length", "Wrong length",
  expert.group.MALFORMED, expert.severity.ERROR)
local expert_reserved = ProtoExpert.new("mrc.reserved", "Reserved bits are not 0",
  expert.group.PROTOCOL, expert.severity.WARN)
local expert_opcode = ProtoExpert.new("mrc.bad_opcode", "Unknown opcode",
  expert.group.PROTOCOL, expert.severity.WARN)
local expert_version = ProtoExpert.new("mrc.bad_tver", "tver is not 0: to be discarded",
  expert.group.PROTOCOL, expert.severity.WARN)
mrc.experts = { expert_icrc, expert_length, expert_reserved, expert_opcode, expert_version }

local PACKINGS = {
  { 1, "label-high: EV[31:16] in the flow label, EV[15:0] in the source port", 0 },
  { 2, "sport-high: EV[31:16] in the source port, EV[15:0] in the flow label", 1 },
  { 3, "label20: 20 bits in the flow label, the low 16 also in the source port", 2 },
}
mrc.prefs.packing = Pref.enum("EV packing", 0, "Where the EV's halves are", PACKINGS, false)
mrc.prefs.check_icrc = Pref.bool("Check the iCRC", true, "Compute the invariant CRC of each packet")
mrc.prefs.trimmed = Pref.uint("DSCP TRIMMED", 12, "DSCP that a switch gives to a trimmed packet")
mrc.prefs.trimmed_lasthop = Pref.uint("DSCP TRIMMED_LASTHOP", 16,
  "DSCP that the last switch gives to a trimmed packet")

local f_ip, f_ipv6, f_udp = Field.new("ip"), Field.new("ipv6"), Field.new("udp")
local f_sport = Field.new("udp.srcport")
local f_label = Field.new("ipv6.flow")
local f_dscp4, f_dscp6 = Field.new("ip.dsfield.dscp"), Field.new("ipv6.tclass.dscp")

-- The innermost of several (SRv6: IPv6 in IPv6).
local function last(...)
  local found = { ... }
  return found[#found]
end

local crc_table = nil

local function crc32(crc, text)
  if crc_table == nil then
    crc_table = {}
    for byte = 0, 255 do
      local value = byte
      for _ = 1, 8 do
        if value % 2 == 1 then
          value = bit.bxor(bit.rshift(value, 1), 0xEDB88320)
        else
          value = bit.rshift(value, 1)
        end
      end
      crc_table[byte] = value
    end
  end
  for i = 1, #text do
    crc = bit.bxor(bit.rshift(crc, 8), crc_table[bit.band(bit.bxor(crc, text:byte(i)), 0xFF)])
  end
  return crc
end

-- `text` with the bytes at the given offsets (from 0) set to 0xFF.
local function with_ones(text, offsets)
  local out = {}
  for i = 1, #text do
    out[i] = text:sub(i, i)
  end
  for _, offset in ipairs(offsets) do
    out[offset + 1] = "\255"
  end
  return table.concat(out)
end

local function raw(range, offset, length)
  return range:bytes():raw(offset or 0, length or range:len())
end

-- The iCRC that the packet should carry, or nil where IP or UDP is missing (reference, section 1).
local function expected_icrc(tvb, covered)
  local udp = last(f_udp())
  local ip6, ip4 = last(f_ipv6()), last(f_ip())
  if udp == nil or (ip6 == nil and ip4 == nil) then
    return nil
  end
  local head
  if ip6 ~= nil then
    head = raw(ip6.range, 0, 40)
    -- Version stays; traffic class, flow label and hop limit are mutable.
    local first = string.char(bit.bor(bit.band(head:byte(1), 0xF0), 0x0F))
    head = first .. with_ones(head, { 1, 2, 3, 7 }):sub(2)
  else
    head = with_ones(raw(ip4.range), { 1, 8, 10, 11 }) -- TOS, TTL, checksum
  end
  local crc = crc32(0xFFFFFFFF, string.rep("\255", 8))
  crc = crc32(crc, head)
  crc = crc32(crc, with_ones(raw(udp.range, 0, 8), { 6, 7 }))
  crc = crc32(crc, with_ones(raw(tvb(0, covered)), { 4 })) -- BTH byte 4: var_res
  return bit.bnot(crc)
end

local function unsigned32(value)
  return value % 2 ^ 32
end

-- Adds one header at `offset`; its values by name.
local function add_header(tree, tvb, key, offset)
  local header = headers[key]
  local sub = tree:add(header.field, tvb(offset, header.size))
  sub:set_text(header.title)
  local values = {}
  for _, f in ipairs(header.fields) do
    local name = f[1]
    local range = tvb(offset + f.from, f.bytes)
    if name == "ack_psn_offset" and values.pr == 1 then
      name = nil -- the same bits hold the probe id
    elseif name == "probe_id" and key == "seth" and values.pr ~= 1 then
      name = nil
    end
    if name ~= nil then
      local item = sub:add(by_name[key .. "." .. name], range)
      local nonzero
      if f.raw then
        nonzero = raw(range):find("[^%z]") ~= nil
        if nonzero and f.first % 8 ~= 0 then
          -- The first byte also holds other fields.
          local mine = range(0, 1):uint() % 2 ^ (8 - f.first % 8)
          nonzero = mine ~= 0 or raw(range):find("[^%z]", 2) ~= nil
        end
      elseif f.bits <= 32 then
        values[name] = tvb(offset, header.size):bitfield(f.first, f.bits)
        nonzero = values[name] ~= 0
      end
      if f.reserved and nonzero then
        item:add_proto_expert_info(expert_reserved)
      end
    end
  end
  return values, sub
end

local function headers_of(opcode, ts)
  if control[opcode] then
    return control[opcode], false
  end
  local list = { "meth" }
  if ts == 1 then
    list[#list + 1] = "tseth"
  end
  list[#list + 1] = "reth"
  if opcode == 0xC9 or opcode == 0xCB then
    list[#list + 1] = "immdt"
  end
  return list, true
end

local function ev_of(sport, label)
  label = label or 0
  if mrc.prefs.packing == 1 then
    return sport * 65536 + label % 65536
  elseif mrc.prefs.packing == 2 then
    return label ~= 0 and label or sport
  end
  return label % 65536 * 65536 + sport
end

local function info_text(values)
  local bth = values.bth
  local text = string.format("%s  QP 0x%06x", opcodes[bth.opcode], bth.dqp)
  if values.seth then
    text = text .. string.format("  cack %d  EV feedback %s", values.seth.cack_psn,
      feedback[values.seth.m])
    if values.seth.pr == 1 then
      text = text .. string.format("  answers probe 0x%04x", values.seth.probe_id)
    end
  elseif values.neth then
    text = text .. string.format("  psn %d  %s", values.neth.nack_psn,
      nack_reasons[values.neth.nack_reason] or "unknown reason")
  elseif values.aeth then
    text = text .. string.format("  psn %d  %s  msn %d", bth.psn,
      syndromes[values.aeth.syndrome] or "unknown syndrome", values.aeth.msn)
  elseif values.erth or values.eeth then
    local op = (values.erth or values.eeth).op
    text = text .. string.format("  id %d  %s", bth.psn, endpoint_ops[op] or "unknown op")
  elseif values.peth then
    text = text .. string.format("  probe 0x%04x", values.peth.probe_id)
  else
    text = text .. string.format("  psn %d", bth.psn)
    if values.meth then
      text = text .. string.format("  msn %d", values.meth.msn)
    end
  end
  if bth.rtx == 1 then
    text = text .. "  [retransmission]"
  end
  return text
end

local function dissect(tvb, pinfo, tree)
  pinfo.cols.protocol = "MRC"
  local root = tree:add(mrc, tvb())
  local values = {}
  local at, captured = 0, tvb:captured_len()
  if captured < BTH_BYTES then
    root:add_proto_expert_info(expert_length, "BTH is cut")
    return captured
  end
  local bth, bth_tree = add_header(root, tvb, "bth", 0)
  values.bth = bth
  at = BTH_BYTES

  local sport, label = f_sport(), last(f_label())
  if sport ~= nil then
    local ev = root:add(by_name["ev"], ev_of(sport.value, label and label.value))
    ev:set_generated(true)
  end
  -- Switches look at the outer header, and write there that they trimmed.
  local dscp = f_dscp6() or last(f_dscp4())
  local trimmed = dscp ~= nil
    and (dscp.value == mrc.prefs.trimmed or dscp.value == mrc.prefs.trimmed_lasthop)
  if trimmed then
    root:add(by_name["trimmed"], true):set_generated(true)
  end

  if opcodes[bth.opcode] == nil then
    bth_tree:add_proto_expert_info(expert_opcode)
    pinfo.cols.info = string.format("Unknown opcode 0x%02x", bth.opcode)
    return captured
  end
  if bth.tver ~= 0 then
    bth_tree:add_proto_expert_info(expert_version)
  end

  local list, is_data = headers_of(bth.opcode, bth.ts)
  local complete = true
  for _, key in ipairs(list) do
    if captured - at < headers[key].size then
      complete = false
      if not trimmed then
        root:add_proto_expert_info(expert_length, headers[key].title .. " is cut")
      end
      break
    end
    values[key] = add_header(root, tvb, key, at)
    at = at + headers[key].size
  end

  local info = info_text(values)
  if trimmed then
    if complete and is_data and captured > at then
      root:add(by_name["payload"], tvb(at, captured - at))
    end
    pinfo.cols.info = info .. "  [TRIMMED]"
    return captured
  end
  pinfo.cols.info = info
  if not complete then
    return captured
  end
  local rest = captured - at - bth.pad - ICRC_BYTES
  if tvb:reported_len() > captured then
    if is_data and captured > at then
      root:add(by_name["payload"], tvb(at, captured - at))
    end
    return captured -- cut by the capture's snap length
  end
  if rest < 0 or (rest > 0 and not is_data) then
    root:add_proto_expert_info(expert_length)
    return captured
  end
  if is_data then
    if rest > 0 then
      root:add(by_name["payload"], tvb(at, rest))
    end
    at = at + rest
    if (rest + bth.pad) % 4 ~= 0 then
      root:add_proto_expert_info(expert_length, "pad does not fill the payload to 4 bytes")
    end
    pinfo.cols.info = info .. string.format("  %d B", rest)
  end
  if bth.pad > 0 then
    root:add(by_name["pad_bytes"], tvb(at, bth.pad))
    at = at + bth.pad
  end
  local item = root:add_le(by_name["icrc"], tvb(at, ICRC_BYTES))
  if mrc.prefs.check_icrc then
    local want = expected_icrc(tvb, at)
    if want ~= nil then
      local good = unsigned32(want) == tvb(at, ICRC_BYTES):le_uint()
      root:add(by_name["icrc_ok"], good):set_generated(true)
      if not good then
        item:add_proto_expert_info(expert_icrc,
          string.format("Wrong iCRC, should be 0x%08x", unsigned32(want)))
        pinfo.cols.info = info .. "  [BAD iCRC]"
      end
    end
  end
  return captured
end

local function looks_like_mrc(tvb)
  return tvb:captured_len() >= BTH_BYTES and opcodes[tvb(0, 1):uint()] ~= nil
    and tvb(1, 1):bitfield(4, 4) == 0 and tvb(2, 2):uint() == 0xFFFF
end

local ports = DissectorTable.get("udp.port")
local roce = ports:get_dissector(4791)

function mrc.dissector(tvb, pinfo, tree)
  -- RoCEv2 shares the port; its opcodes begin with other bits.
  if roce ~= nil and tvb:captured_len() > 0 and tvb(0, 1):bitfield(0, 3) ~= OPCODE_MRC then
    return roce:call(tvb, pinfo, tree)
  end
  return dissect(tvb, pinfo, tree)
end

local MRC_PORTS = {
  [4791] = true, -- the RoCEv2 port
  [4971] = true, -- as the specification's text prints it
}

-- Wireshark asks the lower port first, and an EV's source port may be any: 7 is ECHO, 53 is DNS.
-- Whoever has such a port gets what does not go to an MRC port.
local low = Proto("mrc_source_port", "Source port of an MRC packet")
local owners = {}

function low.dissector(tvb, pinfo, tree)
  if MRC_PORTS[pinfo.dst_port] then
    return mrc.dissector(tvb, pinfo, tree)
  end
  return owners[pinfo.match_uint]:call(tvb, pinfo, tree)
end

for port = 1, 4970 do
  local owner = not MRC_PORTS[port] and ports:get_dissector(port)
  if owner then
    owners[port] = owner
    ports:add(port, low)
  end
end

for port in pairs(MRC_PORTS) do
  ports:add(port, mrc)
end

mrc:register_heuristic("udp", function(tvb, pinfo, tree)
  if not looks_like_mrc(tvb) then
    return false
  end
  dissect(tvb, pinfo, tree)
  return true
end)
