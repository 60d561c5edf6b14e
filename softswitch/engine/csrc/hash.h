/* Hash algorithms of v1model by their definition; names as in the bmv2 JSON. */
#ifndef MRC_HASH_H
#define MRC_HASH_H

static inline u32 h_crc32(const u8 *p, u32 n) {
  static const u32 nib[16] = {  /* reflected 0x04c11db7, four bits at a time */
      0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158,
      0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4,
      0xa00ae278, 0xbdbdf21c};
  u32 c = 0xffffffffu;
  while (n--) {
    c ^= *p++;
    c = c >> 4 ^ nib[c & 15];
    c = c >> 4 ^ nib[c & 15];
  }
  return ~c;
}

static inline u32 h_crc16(const u8 *p, u32 n) {  /* ARC: reflected 0x8005 */
  static const u16 nib[16] = {0x0000, 0xcc01, 0xd801, 0x1400, 0xf001, 0x3c00, 0x2800, 0xe401,
                              0xa001, 0x6c00, 0x7800, 0xb401, 0x5000, 0x9c01, 0x8801, 0x4400};
  u32 c = 0;
  while (n--) {
    c ^= *p++;
    c = c >> 4 ^ nib[c & 15];
    c = c >> 4 ^ nib[c & 15];
  }
  return c;
}

static inline u32 h_ccitt(const u8 *p, u32 n) {  /* 0x1021, start 0xffff */
  u32 c = 0xffff;
  while (n--) {
    c ^= (u32)*p++ << 8;
    for (int i = 0; i < 8; i++) c = c & 0x8000 ? (c << 1 ^ 0x1021) & 0xffff : c << 1;
  }
  return c & 0xffff;
}

/* Ones' complement sum of big-endian 16-bit words, complemented (RFC 1071). */
static inline u32 h_csum16(const u8 *p, u32 n) {
  u64 s = 0;
  while (n >= 4) { s += ld_be(p, 4); p += 4; n -= 4; }
  if (n >= 2) { s += ld_be(p, 2); p += 2; n -= 2; }
  if (n) s += (u64)p[0] << 8;
  while (s >> 16) s = (s & 0xffff) + (s >> 16);
  return (u32)(~s & 0xffff);
}

static inline u32 h_xor16(const u8 *p, u32 n) {
  u32 x = 0;
  for (; n >= 2; p += 2, n -= 2) x ^= (u32)ld_be(p, 2);
  if (n) x ^= (u32)p[0] << 8;
  return x;
}

static inline u32 h_xor32(const u8 *p, u32 n) {
  u32 x = 0;
  for (; n >= 4; p += 4, n -= 4) x ^= (u32)ld_be(p, 4);
  if (n) x ^= (u32)ld_be(p, n) << (8 * (4 - n));
  return x;
}

static inline u64 h_identity(const u8 *p, u32 n) {
  u64 x = 0;
  for (u32 i = 0; i < n && i < 8; i++) x = x << 8 | p[i];
  return x;
}

static inline u64 rotl64(u64 x, int r) { return x << r | x >> (64 - r); }

static inline u64 h_xxh64(const u8 *p, u32 n) {  /* seed 0 */
  const u64 p1 = 0x9E3779B185EBCA87ull, p2 = 0xC2B2AE3D27D4EB4Full, p3 = 0x165667B19E3779F9ull,
            p4 = 0x85EBCA77C2B2AE63ull, p5 = 0x27D4EB2F165667C5ull;
  u64 h, len = n, v;
  if (n >= 32) {
    u64 a[4] = {p1 + p2, p2, 0, -p1};
    for (; n >= 32; n -= 32)
      for (int i = 0; i < 4; i++, p += 8) {
        memcpy(&v, p, 8);
        a[i] = rotl64(a[i] + v * p2, 31) * p1;
      }
    h = rotl64(a[0], 1) + rotl64(a[1], 7) + rotl64(a[2], 12) + rotl64(a[3], 18);
    for (int i = 0; i < 4; i++) h = (h ^ rotl64(a[i] * p2, 31) * p1) * p1 + p4;
  } else {
    h = p5;
  }
  h += len;
  for (; n >= 8; n -= 8, p += 8) {
    memcpy(&v, p, 8);
    h = rotl64(h ^ rotl64(v * p2, 31) * p1, 27) * p1 + p4;
  }
  if (n >= 4) {
    u32 w;
    memcpy(&w, p, 4);
    h = rotl64(h ^ (u64)w * p1, 23) * p2 + p3;
    p += 4;
    n -= 4;
  }
  while (n--) h = rotl64(h ^ *p++ * p5, 11) * p1;
  h = (h ^ h >> 33) * p2;
  h = (h ^ h >> 29) * p3;
  return h ^ h >> 32;
}

/* crcN_custom as bmv2 has them before anyone changes their parameters */
static inline u32 h_crc8_custom(const u8 *p, u32 n) {
  u32 c = 0;
  while (n--) {
    c ^= *p++;
    for (int i = 0; i < 8; i++) c = c & 0x80 ? (c << 1 ^ 0x07) & 0xff : c << 1;
  }
  return c & 0xff;
}
static inline u64 h_crc64_custom(const u8 *p, u32 n) {  /* 0x1b, reflected both ways */
  u64 c = 0;
  while (n--) {
    c ^= *p++;
    for (int i = 0; i < 8; i++) c = c >> 1 ^ (c & 1 ? 0xd800000000000000ull : 0);
  }
  return c;
}

/* bmv2 starts with a key of zeros, and P4Runtime has no words to change it. */
static inline u64 h_toeplitz(const u8 *p, u32 n) {
  (void)p;
  (void)n;
  return 0;
}

#endif
