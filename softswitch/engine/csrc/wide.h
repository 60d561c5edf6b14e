/* Integers wider than 128 bits: two's complement, WIDE_LIMBS words, least significant
 * first. The generated program defines WIDE_LIMBS so that every value it can compute
 * fits, sign included. */
#ifndef MRC_WIDE_H
#define MRC_WIDE_H

typedef struct { u64 w[WIDE_LIMBS]; } wide;

static inline wide w_fill(u64 low, u64 rest) {
  wide r;
  r.w[0] = low;
  for (u32 i = 1; i < WIDE_LIMBS; i++) r.w[i] = rest;
  return r;
}
static inline wide w_u64(u64 v) { return w_fill(v, 0); }
static inline wide w_i64(i64 v) { return w_fill((u64)v, v < 0 ? ~0ull : 0); }
static inline wide w_u128(u128 v) {
  wide r = w_fill((u64)v, 0);
  r.w[1] = (u64)(v >> 64);
  return r;
}
static inline wide w_i128(i128 v) {
  wide r = w_fill((u64)v, v < 0 ? ~0ull : 0);
  r.w[1] = (u64)((u128)v >> 64);
  return r;
}
static inline wide w_load(const u64 *p, u32 n) {
  wide r;
  for (u32 i = 0; i < WIDE_LIMBS; i++) r.w[i] = i < n ? p[i] : 0;
  return r;
}
static inline void w_store(u64 *p, u32 n, wide a) {
  for (u32 i = 0; i < n && i < WIDE_LIMBS; i++) p[i] = a.w[i];
}
static inline u64 w_lo64(wide a) { return a.w[0]; }
static inline u128 w_lo128(wide a) { return U128(a.w[1], a.w[0]); }
static inline wide w_and(wide a, wide b) {
  for (u32 i = 0; i < WIDE_LIMBS; i++) a.w[i] &= b.w[i];
  return a;
}
static inline wide w_or(wide a, wide b) {
  for (u32 i = 0; i < WIDE_LIMBS; i++) a.w[i] |= b.w[i];
  return a;
}
static inline wide w_xor(wide a, wide b) {
  for (u32 i = 0; i < WIDE_LIMBS; i++) a.w[i] ^= b.w[i];
  return a;
}
static inline wide w_not(wide a) {
  for (u32 i = 0; i < WIDE_LIMBS; i++) a.w[i] = ~a.w[i];
  return a;
}
static inline wide w_add(wide a, wide b) {
  u128 c = 0;
  for (u32 i = 0; i < WIDE_LIMBS; i++) {
    c += (u128)a.w[i] + b.w[i];
    a.w[i] = (u64)c;
    c >>= 64;
  }
  return a;
}
static inline wide w_sub(wide a, wide b) { return w_add(w_add(a, w_not(b)), w_u64(1)); }
static inline wide w_mul(wide a, wide b) {
  wide r = w_u64(0);
  for (u32 i = 0; i < WIDE_LIMBS; i++) {
    u128 c = 0;
    for (u32 j = 0; i + j < WIDE_LIMBS; j++) {
      c += (u128)a.w[i] * b.w[j] + r.w[i + j];
      r.w[i + j] = (u64)c;
      c >>= 64;
    }
  }
  return r;
}
static inline int w_neg(wide a) { return a.w[WIDE_LIMBS - 1] >> 63 != 0; }
static inline wide w_shl(wide a, u64 n) {
  wide r = w_u64(0);
  if (n >= 64ull * WIDE_LIMBS) return r;
  u32 q = (u32)(n >> 6), s = (u32)(n & 63);
  for (u32 i = WIDE_LIMBS; i-- > q;) {
    r.w[i] = a.w[i - q] << s;
    if (s && i > q) r.w[i] |= a.w[i - q - 1] >> (64 - s);
  }
  return r;
}
static inline wide w_shr(wide a, u64 n) {  /* arithmetic */
  u64 fill = w_neg(a) ? ~0ull : 0;
  wide r = w_fill(fill, fill);
  if (n >= 64ull * WIDE_LIMBS) return r;
  u32 q = (u32)(n >> 6), s = (u32)(n & 63);
  for (u32 i = 0; i + q < WIDE_LIMBS; i++) {
    u64 hi = i + q + 1 < WIDE_LIMBS ? a.w[i + q + 1] : fill;
    r.w[i] = s ? a.w[i + q] >> s | hi << (64 - s) : a.w[i + q];
  }
  return r;
}
static inline int w_cmp(wide a, wide b) {
  if (w_neg(a) != w_neg(b)) return w_neg(a) ? -1 : 1;
  for (u32 i = WIDE_LIMBS; i-- > 0;)
    if (a.w[i] != b.w[i]) return a.w[i] < b.w[i] ? -1 : 1;
  return 0;
}
static inline wide w_mask(wide a, u32 bits) {
  for (u32 i = 0; i < WIDE_LIMBS; i++) {
    if (bits >= 64) bits -= 64;
    else {
      a.w[i] &= bits ? (1ull << bits) - 1 : 0;
      bits = 0;
    }
  }
  return a;
}
static inline wide w_sext(wide a, u32 bits) {
  u32 up = 64 * WIDE_LIMBS - bits;
  return w_shr(w_shl(a, up), up);
}
/* both not negative; division by zero gives 0 */
static inline wide w_divmod(wide a, wide b, int want_mod) {
  wide q = w_u64(0), r = w_u64(0);
  if (w_cmp(b, q) == 0) return q;
  for (u32 i = 64 * WIDE_LIMBS; i-- > 0;) {
    r = w_shl(r, 1);
    r.w[0] |= a.w[i >> 6] >> (i & 63) & 1;
    if (w_cmp(r, b) >= 0) {
      r = w_sub(r, b);
      q.w[i >> 6] |= 1ull << (i & 63);
    }
  }
  return want_mod ? r : q;
}
#endif
