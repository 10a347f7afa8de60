/* Products of float32 rows with the quantised weights of GGUF files, for x86 processors with AVX2.

A weight [out, in] is (level - offset) * scale + minimum, with a scale and a minimum in float16 for
every GROUP columns of a row. It is packed for COLUMNS rows of it at a time: per group the levels,
two neighbours of every row side by side, which is a pair, then scales and minimums. Levels of less
than 8 bits are in two parts, their low 4 bits and what is above; bytes hold these of several pairs.

A row of the input is rounded to 16 bits per group. Sums within a group are of integers, those over
groups follow in one order: a row's product depends on nothing but the row. */

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 16
#define ALWAYS static inline __attribute__((always_inline))
#define TOP 32767.0f
#define MOST 8 /* rows of the input that are multiplied at once */

typedef struct {
    int bits, group, offset, minimums;
} Form;

/* Rows of the input, in chunks of MOST and what is left. Of a chunk of n rows that begins at ``row``, a
pair of neighbouring levels stands at row * in + 2 * n * pair, side by side with that of the other
rows, and what belongs to a group at row * groups + n * group. */
typedef struct {
    int16_t *levels;
    float *scales, *sums; /* of the levels, times the scale */
    int32_t *offsets;     /* the sum of the levels times the weight's offset, negative */
    long in, groups;
} Input;

#if defined(__AVX512BW__) && defined(__AVX512VL__)
typedef __m512i Integers; /* 16 of 32 bits, or 32 of 16 */
typedef __m512 Floats;
ALWAYS Integers widened(const uint8_t *at) { return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)at)); }
ALWAYS Integers up(Integers x, int bits) { return bits < 0 ? _mm512_srli_epi16(x, -bits) : _mm512_slli_epi16(x, bits); }
ALWAYS Integers masked(Integers x, int mask) { return _mm512_and_si512(x, _mm512_set1_epi16(mask)); }
ALWAYS Integers both(Integers x, Integers y) { return _mm512_or_si512(x, y); }
ALWAYS Integers all(int32_t value) { return _mm512_set1_epi32(value); }
ALWAYS Integers dot(Integers sum, Integers x, Integers y) {
#ifdef __AVX512VNNI__
    return _mm512_dpwssd_epi32(sum, x, y);
#else
    return _mm512_add_epi32(sum, _mm512_madd_epi16(x, y));
#endif
}
ALWAYS Floats zero(void) { return _mm512_setzero_ps(); }
ALWAYS Floats halves(const uint8_t *at) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)at)); }
ALWAYS Floats floats(Integers x, float factor) { return _mm512_mul_ps(_mm512_cvtepi32_ps(x), _mm512_set1_ps(factor)); }
ALWAYS Floats scaled(float factor, Floats x, Floats to) { return _mm512_fmadd_ps(_mm512_set1_ps(factor), x, to); }
ALWAYS Floats added(Floats x, Floats y, Floats to) { return _mm512_fmadd_ps(x, y, to); }
ALWAYS void store(float *at, Floats x) { _mm512_storeu_ps(at, x); }
#else
typedef struct { __m256i a, b; } Integers;
typedef struct { __m256 a, b; } Floats;
ALWAYS __m256i half_widened(const uint8_t *at) { return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)at)); }
ALWAYS Integers widened(const uint8_t *at) { return (Integers){half_widened(at), half_widened(at + 16)}; }
ALWAYS __m256i half_up(__m256i x, int bits) { return bits < 0 ? _mm256_srli_epi16(x, -bits) : _mm256_slli_epi16(x, bits); }
ALWAYS Integers up(Integers x, int bits) { return (Integers){half_up(x.a, bits), half_up(x.b, bits)}; }
ALWAYS Integers masked(Integers x, int mask) {
    __m256i all = _mm256_set1_epi16(mask);
    return (Integers){_mm256_and_si256(x.a, all), _mm256_and_si256(x.b, all)};
}
ALWAYS Integers both(Integers x, Integers y) { return (Integers){_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)}; }
ALWAYS Integers all(int32_t value) { return (Integers){_mm256_set1_epi32(value), _mm256_set1_epi32(value)}; }
ALWAYS Integers dot(Integers sum, Integers x, Integers y) {
    return (Integers){_mm256_add_epi32(sum.a, _mm256_madd_epi16(x.a, y.a)),
                      _mm256_add_epi32(sum.b, _mm256_madd_epi16(x.b, y.b))};
}
ALWAYS Floats zero(void) { return (Floats){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
ALWAYS __m256 half_halves(const uint8_t *at) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)at)); }
ALWAYS Floats halves(const uint8_t *at) { return (Floats){half_halves(at), half_halves(at + 16)}; }
ALWAYS Floats floats(Integers x, float factor) {
    __m256 all = _mm256_set1_ps(factor);
    return (Floats){_mm256_mul_ps(_mm256_cvtepi32_ps(x.a), all), _mm256_mul_ps(_mm256_cvtepi32_ps(x.b), all)};
}
ALWAYS Floats added(Floats x, Floats y, Floats to) {
    return (Floats){_mm256_fmadd_ps(x.a, y.a, to.a), _mm256_fmadd_ps(x.b, y.b, to.b)};
}
ALWAYS Floats scaled(float factor, Floats x, Floats to) {
    return added((Floats){_mm256_set1_ps(factor), _mm256_set1_ps(factor)}, x, to);
}
ALWAYS void store(float *at, Floats x) { _mm256_storeu_ps(at, x.a), _mm256_storeu_ps(at + 8, x.b); }
#endif

ALWAYS long levels_size(int bits, int group) { return COLUMNS * group * bits / 8; }
ALWAYS long block_size(Form form) { return levels_size(form.bits, form.group) + 2 * COLUMNS * (1 + form.minimums); }

/* ``bits`` of both levels of a pair of COLUMNS rows, shifted ``to`` the left. */
ALWAYS Integers part(const uint8_t *at, int bits, int pair, int to) {
    int shift = pair * bits % 8;
    Integers x = up(widened(at + 2 * COLUMNS * (pair * bits / 8)), to - shift);
    return to == 0 && shift + bits == 8 ? x : masked(x, ((1 << bits) - 1) << to);
}

/* The pair of levels ``pair`` of the 8 pairs ``eight`` of a group. */
ALWAYS Integers levels_of(const uint8_t *at, int bits, int group, int eight, int pair) {
    int low = bits == 8 ? 8 : 4;
    Integers x = part(at + 2 * COLUMNS * low * eight, low, pair, 0);
    if (bits == low) return x;
    return both(x, part(at + levels_size(4, group) + 2 * COLUMNS * (bits - 4) * eight, bits - 4, pair, 4));
}

ALWAYS void product(int bits, int group, int rows, Form form, const uint8_t *packed, Input x, long row, float *y,
                    long stride, long columns) {
    const int16_t *levels = x.levels + row * x.in;
    const float *row_scales = x.scales + row * x.groups, *row_sums = x.sums + row * x.groups;
    const int32_t *offsets = x.offsets + row * x.groups;
    Floats total[MOST];
    for (int r = 0; r < rows; r++) total[r] = zero();
    for (long g = 0; g < x.groups; g++) {
        Integers sum[MOST];
        for (int r = 0; r < rows; r++) sum[r] = all(offsets[r]);
        for (int eight = 0; eight < group / 16; eight++)
#pragma GCC unroll 8
            for (int pair = 0; pair < 8; pair++, levels += 2 * rows) {
                Integers weights = levels_of(packed, bits, group, eight, pair);
#pragma GCC unroll 8
                for (int r = 0; r < rows; r++) {
                    int32_t two;
                    memcpy(&two, levels + 2 * r, 4);
                    sum[r] = dot(sum[r], weights, all(two));
                }
            }
        const uint8_t *factors = packed + levels_size(bits, group);
        Floats scales = halves(factors);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            total[r] = added(floats(sum[r], row_scales[r]), scales, total[r]);
            if (form.minimums) total[r] = scaled(row_sums[r], halves(factors + 2 * COLUMNS), total[r]);
        }
        packed += block_size(form);
        row_scales += rows, row_sums += rows, offsets += rows;
    }
    for (int r = 0; r < rows; r++) {
        float some[COLUMNS], *at = y + (row + r) * stride;
        store(columns == COLUMNS ? at : some, total[r]);
        if (columns < COLUMNS) memcpy(at, some, columns * sizeof(float));
    }
}

ALWAYS long chunk(long row, long rows) { return rows - row < MOST ? rows - row : MOST; }

ALWAYS void products(int bits, int group, Form form, const uint8_t *packed, Input x, long rows, float *y, long stride,
                     long columns) {
#define CASE(n) case n: product(bits, group, n, form, packed, x, row, y, stride, columns); break;
    for (long row = 0; row < rows; row += MOST)
        switch (chunk(row, rows)) { CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) }
}

/* Rounds row ``r`` of the chunk of ``n`` rows that begins at ``row``. */
static void rounded(const float *x, Form form, Input to, long row, long n, long r) {
    for (long g = 0; g < to.groups; g++, x += form.group) {
        int16_t *levels = to.levels + row * to.in + 2 * (n * form.group / 2 * g + r);
        long at = row * to.groups + n * g + r;
        float top = 0;
        int32_t sum = 0, finite = 1;
        for (int i = 0; i < form.group; i++) {
            float size = fabsf(x[i]);
            finite &= size < INFINITY;
            top = size > top ? size : top;
        }
        float factor = finite && top > 1e-30f ? TOP / top : 0;
        for (int i = 0; i < form.group; i++)
            sum += levels[i / 2 * 2 * n + i % 2] = (int16_t)(factor ? lrintf(x[i] * factor) : 0);
        to.scales[at] = finite ? top / TOP : NAN;
        to.sums[at] = to.scales[at] * (float)sum;
        to.offsets[at] = -form.offset * sum;
    }
}

/* x [rows, in] times ``packed`` [out, in] -> y [rows, out], whose rows are ``stride`` apart. 0: done. */
int mars_multiply(const float *x, long rows, long in, const uint8_t *packed, long out, Form form, float *y, long stride,
                  int threads) {
    long groups = in / form.group, blocks = (out + COLUMNS - 1) / COLUMNS;
    char *memory = malloc(rows * in * sizeof(int16_t) + 3 * rows * groups * sizeof(float));
    if (!memory) return 1;
    float *scales = (float *)memory, *sums = scales + rows * groups;
    int32_t *offsets = (int32_t *)(sums + rows * groups);
    Input input = {(int16_t *)(offsets + rows * groups), scales, sums, offsets, in, groups};
#pragma omp parallel num_threads(threads)
    {
#pragma omp for
        for (long row = 0; row < rows; row++) {
            long first = row - row % MOST;
            rounded(x + row * in, form, input, first, chunk(first, rows), row - first);
        }
#pragma omp for
        for (long block = 0; block < blocks; block++) {
            const uint8_t *at = packed + block * groups * block_size(form);
            float *to = y + block * COLUMNS;
            long columns = out - block * COLUMNS < COLUMNS ? out - block * COLUMNS : COLUMNS;
            if (form.bits == 4) products(4, 32, form, at, input, rows, to, stride, columns);
            if (form.bits == 5) products(5, 32, form, at, input, rows, to, stride, columns);
            if (form.bits == 6) products(6, 16, form, at, input, rows, to, stride, columns);
            if (form.bits == 8) products(8, 32, form, at, input, rows, to, stride, columns);
        }
    }
    free(memory);
    return 0;
}

/* Where the ``bits`` of a level stand in what ``part`` reads: a byte and a shift. */
ALWAYS int place(int bits, int column, long lane, int *shift) {
    int bit = column / 2 * bits;
    *shift = bit % 8;
    return 2 * (COLUMNS * (bit / 8) + lane) + column % 2;
}

ALWAYS void packed_row(int bits, int group, Form form, const uint8_t *levels, const uint16_t *scales,
                       const uint16_t *minimums, long groups, long lane, uint8_t *at) {
    int low = bits == 8 ? 8 : 4, shift;
    for (long g = 0; g < groups; g++, levels += group, at += block_size(form)) {
#pragma GCC unroll 16
        for (int i = 0; i < group; i += 2) {
            uint16_t two, *to = (uint16_t *)(at + place(low, i, lane, &shift));
            memcpy(&two, levels + i, 2);
            *to |= (two & 0x0101 * ((1 << low) - 1)) << shift;
            if (bits == low) continue;
            to = (uint16_t *)(at + levels_size(4, group) + place(bits - 4, i, lane, &shift));
            *to |= (two >> 4 & 0x0101 * ((1 << (bits - 4)) - 1)) << shift;
        }
        uint16_t *factors = (uint16_t *)(at + levels_size(bits, group));
        factors[lane] = scales[g];
        if (form.minimums) factors[COLUMNS + lane] = minimums[g];
    }
}

/* Packs levels [out, in], one in a byte, scales and minimums [out, in / group] (float16). */
void mars_pack(const uint8_t *levels, const uint16_t *scales, const uint16_t *minimums, long out, long in, Form form,
               uint8_t *packed, int threads) {
    long groups = in / form.group, blocks = (out + COLUMNS - 1) / COLUMNS, size = groups * block_size(form);
    memset(packed, 0, blocks * size);
#pragma omp parallel for num_threads(threads)
    for (long block = 0; block < blocks; block++) {
        for (long row = block * COLUMNS; row < out && row < (block + 1) * COLUMNS; row++) {
            const uint8_t *from = levels + row * in;
            const uint16_t *scale = scales + row * groups, *low = minimums ? minimums + row * groups : 0;
            uint8_t *to = packed + block * size;
            if (form.bits == 4) packed_row(4, 32, form, from, scale, low, groups, row % COLUMNS, to);
            if (form.bits == 5) packed_row(5, 32, form, from, scale, low, groups, row % COLUMNS, to);
            if (form.bits == 6) packed_row(6, 16, form, from, scale, low, groups, row % COLUMNS, to);
            if (form.bits == 8) packed_row(8, 32, form, from, scale, low, groups, row % COLUMNS, to);
        }
    }
}

/* The rows ``ids`` [n] of ``packed`` [out, in] -> y [n, in]. */
void mars_rows(const int64_t *ids, long n, const uint8_t *packed, long in, Form form, float *y, int threads) {
    long groups = in / form.group;
#pragma omp parallel for num_threads(threads)
    for (long row = 0; row < n; row++) {
        long lane = ids[row] % COLUMNS;
        const uint8_t *at = packed + ids[row] / COLUMNS * groups * block_size(form);
        for (long g = 0; g < groups; g++, at += block_size(form)) {
            const uint16_t *factors = (const uint16_t *)(at + levels_size(form.bits, form.group));
            float scale = _cvtsh_ss(factors[lane]), minimum = form.minimums ? _cvtsh_ss(factors[COLUMNS + lane]) : 0;
            for (int i = 0; i < form.group; i++) {
                int low = form.bits == 8 ? 8 : 4, shift, byte = place(low, i, lane, &shift);
                int level = at[byte] >> shift & ((1 << low) - 1);
                if (form.bits > low) {
                    byte = levels_size(4, form.group) + place(form.bits - 4, i, lane, &shift);
                    level |= (at[byte] >> shift & ((1 << (form.bits - 4)) - 1)) << 4;
                }
                y[row * in + g * form.group + i] = (float)(level - form.offset) * scale + minimum;
            }
        }
    }
}
