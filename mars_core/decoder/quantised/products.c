/* Products of float32 rows with the quantised weights of GGUF files, for x86 processors with AVX2.

A weight [out, in] is (level - offset) * scale + minimum, with a scale and a minimum in float16 for
every GROUP columns of a row. It is packed for COLUMNS rows of it at a time: per group the levels,
two neighbours of every row side by side, then scales and minimums. Levels have 8 bits, or their low
4 in bytes that hold two, and what is above in planes of one bit.

A row of the input is rounded to 16 bits per group. Sums within a group are of integers, those over
groups follow in one order: a row's product depends on nothing but the row. */

#include <immintrin.h>
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 16
#define ROWS 8
#define ALWAYS static inline __attribute__((always_inline))
#define TOP 32767.0f

typedef struct {
    int bits, group, offset, minimums;
} Form;

/* Rows of the input, in chunks of ROWS; the last one has what is left. Of a chunk of n rows that begins at ``row``, a pair
of neighbouring levels stands at row * in + 2 * n * pair, side by side with that of the other rows,
and what belongs to a group at row * groups + n * group. */
typedef struct {
    int16_t *levels;
    float *scales, *sums; /* of the levels, times the scale */
    int32_t *offsets;     /* the sum of the levels times the weight's offset, negative */
    long in, groups;
} Input;

typedef float Vector __attribute__((vector_size(64)));
typedef int32_t Whole __attribute__((vector_size(64)));
typedef int16_t Shorts __attribute__((vector_size(32)));
#define LANES 16

ALWAYS Vector load(const float *at) {
    Vector x;
    memcpy(&x, at, sizeof x);
    return x;
}
ALWAYS void put(float *at, Vector x) { memcpy(at, &x, sizeof x); }
ALWAYS Vector chosen(Whole where, Vector x, Vector y) { return (Vector)((where & (Whole)x) | (~where & (Whole)y)); }

/* One value of all lanes, in one order: their sum, the largest of some that are not negative, whether any is not 0. */
#define REDUCED(name, Kind, Lanes, joined)                                  \
    ALWAYS Kind name(Lanes x) {                                             \
        Kind each[LANES];                                                   \
        memcpy(each, &x, sizeof x);                                         \
        for (int half = LANES / 2; half; half /= 2)                         \
            for (int i = 0; i < half; i++) {                                \
                Kind a = each[i], b = each[i + half];                       \
                each[i] = joined;                                           \
            }                                                               \
        return each[0];                                                     \
    }
REDUCED(total, float, Vector, a + b)
REDUCED(whole_total, int32_t, Whole, a + b)
REDUCED(largest, float, Vector, a > b ? a : b)
REDUCED(any, int32_t, Whole, a | b)

/* ``folded``: the lower half of the lanes plus the upper one. */
#if defined(__AVX512BW__) && defined(__AVX512VL__)
typedef __m512i Integers; /* 16 of 32 bits, or 32 of 16 */
typedef __m512 Floats;
ALWAYS Integers widened(const uint8_t *at) { return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)at)); }
ALWAYS Integers low(Integers x) { return _mm512_and_si512(x, _mm512_set1_epi16(15)); }
ALWAYS Integers high(Integers x) { return _mm512_srli_epi16(x, 4); }
ALWAYS Integers plus(Integers x, uint32_t where, int value) {
    return _mm512_mask_add_epi16(x, where, x, _mm512_set1_epi16(value));
}
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
ALWAYS __m256 folded(Vector x) {
    Floats upper = _mm512_shuffle_f32x4((Floats)x, (Floats)x, 0xee);
    return _mm256_add_ps(_mm512_castps512_ps256((Floats)x), _mm512_castps512_ps256(upper));
}
#else
typedef struct { __m256i a, b; } Integers;
typedef struct { __m256 a, b; } Floats;
ALWAYS __m256i half_widened(const uint8_t *at) { return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)at)); }
ALWAYS Integers widened(const uint8_t *at) { return (Integers){half_widened(at), half_widened(at + 16)}; }
ALWAYS Integers low(Integers x) {
    __m256i mask = _mm256_set1_epi16(15);
    return (Integers){_mm256_and_si256(x.a, mask), _mm256_and_si256(x.b, mask)};
}
ALWAYS Integers high(Integers x) { return (Integers){_mm256_srli_epi16(x.a, 4), _mm256_srli_epi16(x.b, 4)}; }
ALWAYS __m256i half_plus(__m256i x, uint32_t where, int value) {
    __m256i bit = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, -32768);
    __m256i there = _mm256_cmpeq_epi16(_mm256_and_si256(_mm256_set1_epi16((int16_t)where), bit), bit);
    return _mm256_add_epi16(x, _mm256_and_si256(there, _mm256_set1_epi16(value)));
}
ALWAYS Integers plus(Integers x, uint32_t where, int value) {
    return (Integers){half_plus(x.a, where & 65535, value), half_plus(x.b, where >> 16, value)};
}
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
ALWAYS __m256 folded(Vector x) {
    Floats halves;
    memcpy(&halves, &x, sizeof x);
    return _mm256_add_ps(halves.a, halves.b);
}
#endif

ALWAYS long levels_size(int bits, int group) { return COLUMNS * group * bits / 8; }
ALWAYS long block_size(Form form) { return levels_size(form.bits, form.group) + 2 * COLUMNS * (1 + form.minimums); }

/* Two neighbouring levels of COLUMNS rows; ``pair`` counts the pairs of a group. */
ALWAYS Integers levels_of(const uint8_t *at, int bits, int group, int pair) {
    if (bits == 8) return widened(at + 32 * pair);
    int half = group / 4;
    Integers both = widened(at + 32 * (pair % half)), x = pair < half ? low(both) : high(both);
    for (int plane = 0; plane < bits - 4; plane++) {
        uint32_t where;
        memcpy(&where, at + (8 + 2 * plane) * group + 4 * pair, 4);
        x = plus(x, where, 16 << plane);
    }
    return x;
}

ALWAYS void product(int bits, int group, int rows, Form form, const uint8_t *packed, Input x, long row, float *y,
                    long stride, long columns) {
    const int16_t *levels = x.levels + row * x.in;
    const float *row_scales = x.scales + row * x.groups, *row_sums = x.sums + row * x.groups;
    const int32_t *offsets = x.offsets + row * x.groups;
    Floats total[rows];
    for (int r = 0; r < rows; r++) total[r] = zero();
    for (long g = 0; g < x.groups; g++) {
        Integers sum[rows];
        for (int r = 0; r < rows; r++) sum[r] = all(offsets[r]);
#pragma GCC unroll 16
        for (int pair = 0; pair < group / 2; pair++) {
            Integers weights = levels_of(packed, bits, group, pair);
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                int32_t both;
                memcpy(&both, levels + 2 * (rows * pair + r), 4);
                sum[r] = dot(sum[r], weights, all(both));
            }
        }
        const uint8_t *factors = packed + levels_size(bits, group);
        Floats scales = halves(factors);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            total[r] = added(floats(sum[r], row_scales[r]), scales, total[r]);
            if (form.minimums) total[r] = scaled(row_sums[r], halves(factors + 2 * COLUMNS), total[r]);
        }
        packed += block_size(form), levels += rows * group;
        row_scales += rows, row_sums += rows, offsets += rows;
    }
    for (int r = 0; r < rows; r++) {
        float some[COLUMNS], *at = y + (row + r) * stride;
        store(columns == COLUMNS ? at : some, total[r]);
        if (columns < COLUMNS) memcpy(at, some, columns * sizeof(float));
    }
}

/* The size of the chunk that begins at ``row``. */
ALWAYS long chunk(long row, long rows) { return rows - row < ROWS ? rows - row : ROWS; }

#define CASE(n) case n: product(bits, group, n, form, packed, x, row, y, stride, columns); break;
ALWAYS void products(int bits, int group, Form form, const uint8_t *packed, Input x, long rows, float *y, long stride,
                     long columns) {
    long row = 0;
    for (; row + ROWS <= rows; row += ROWS) product(bits, group, ROWS, form, packed, x, row, y, stride, columns);
    switch (rows - row) { CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) }
}

/* Rounds row ``r`` of the chunk of ``n`` rows that begins at ``row``. */
static void rounded(const float *x, Form form, Input to, long row, long n, long r) {
    for (long g = 0; g < to.groups; g++, x += form.group) {
        int16_t levels[2 * LANES], *at = to.levels + row * to.in + 2 * (n * form.group / 2 * g + r);
        long place = row * to.groups + n * g + r;
        Vector most = {0};
        Whole finite = ~(Whole){0}, sum = {0};
        for (int i = 0; i < form.group; i += LANES) {
            Vector size = (Vector)((Whole)load(x + i) & 0x7fffffff);
            finite &= size < INFINITY;
            most = chosen(size > most, size, most);
        }
        float top = largest(most);
        int whole = !any(~finite);
        float factor = whole && top > 1e-30f ? TOP / top : 0;
        for (int i = 0; i < form.group; i += LANES) {
            Vector scaled = whole ? load(x + i) * factor : (Vector){0};
            Whole level = __builtin_convertvector((scaled + 12582912.0f) - 12582912.0f, Whole);
            Shorts some = __builtin_convertvector(level, Shorts);
            memcpy(levels + i, &some, sizeof some);
            sum += level;
        }
        for (int pair = 0; pair < form.group / 2; pair++) memcpy(at + 2 * n * pair, levels + 2 * pair, 2 * sizeof *at);
        to.scales[place] = whole ? top / TOP : NAN;
        to.sums[place] = to.scales[place] * (float)whole_total(sum);
        to.offsets[place] = -form.offset * whole_total(sum);
    }
}

/* A weight [out, in], packed; and several of them, one below the other, [out, in] together, which are multiplied with
the same input. ``bias`` may be 0. */
typedef struct {
    const uint8_t *packed;
    long out;
    Form form;
} Part;
typedef struct {
    const Part *parts;
    long count, in, out;
    const float *bias;
} Product;

/* The bytes that an input needs while it is multiplied. */
static long input_size(long rows, long in) { return rows * in * sizeof(int16_t) + 3 * (rows * in / 16) * sizeof(float); }

ALWAYS long blocks_of(Part part) { return (part.out + COLUMNS - 1) / COLUMNS; }

/* x [rows, in] times the parts -> y [rows, out]. All threads of a region call it; they leave it together. */
static void multiply(const float *x, long rows, Product by, char *memory, float *y) {
    for (long first = 0, end = 0; first < by.count; first = end) {
        Form form = by.parts[first].form;
        long groups = by.in / form.group, blocks = 0;
        for (; end < by.count; blocks += blocks_of(by.parts[end++])) { /* parts for which x is rounded alike */
            Form other = by.parts[end].form;
            if (other.group != form.group || other.offset != form.offset) break;
        }
        float *scales = (float *)memory, *sums = scales + rows * groups;
        int32_t *offsets = (int32_t *)(sums + rows * groups);
        Input input = {(int16_t *)(offsets + rows * groups), scales, sums, offsets, by.in, groups};
#pragma omp for
        for (long row = 0; row < rows; row++) {
            long start = row - row % ROWS;
            rounded(x + row * by.in, form, input, start, chunk(start, rows), row - start);
        }
#pragma omp for
        for (long number = 0; number < blocks; number++) {
            const Part *part = by.parts + first;
            float *to = y;
            long block = number;
            for (; block >= blocks_of(*part); to += part++->out) block -= blocks_of(*part);
            const uint8_t *at = part->packed + block * groups * block_size(part->form);
            long columns = part->out - block * COLUMNS < COLUMNS ? part->out - block * COLUMNS : COLUMNS;
            to += block * COLUMNS;
            int bits = part->form.bits;
            if (bits == 4) products(4, 32, part->form, at, input, rows, to, by.out, columns);
            if (bits == 5) products(5, 32, part->form, at, input, rows, to, by.out, columns);
            if (bits == 6) products(6, 16, part->form, at, input, rows, to, by.out, columns);
            if (bits == 8) products(8, 32, part->form, at, input, rows, to, by.out, columns);
        }
        for (; first < end; first++) y += by.parts[first].out;
    }
}

/* x [rows, in] times ``packed`` [out, in] -> y [rows, out], whose rows are ``stride`` apart. 0: done. */
int mars_multiply(const float *x, long rows, long in, const uint8_t *packed, long out, Form form, float *y, long stride,
                  int threads) {
    char *memory = malloc(input_size(rows, in));
    if (!memory) return 1;
    Part part = {packed, out, form};
#pragma omp parallel num_threads(threads)
    multiply(x, rows, (Product){&part, 1, in, stride, 0}, memory, y);
    free(memory);
    return 0;
}

/* Where the level of ``column`` in a group stands, for the row ``lane`` of its COLUMNS. */
ALWAYS void place(int group, int column, long lane, int bits, long *byte, int *shift) {
    int pair = column / 2, half = group / 4;
    *byte = 32 * (bits == 8 ? pair : pair % half) + 2 * lane + column % 2;
    *shift = bits < 8 && pair >= half ? 4 : 0;
}

ALWAYS void packed_row(int bits, int group, Form form, const uint8_t *levels, const uint16_t *scales,
                       const uint16_t *minimums, long groups, long lane, uint8_t *at) {
    for (long g = 0; g < groups; g++, levels += group, at += block_size(form)) {
        int half = group / 4;
        uint16_t pairs[group / 2], *to = (uint16_t *)at + lane;
        memcpy(pairs, levels, group);
        for (int pair = 0; bits == 8 && pair < group / 2; pair++) to[COLUMNS * pair] = pairs[pair];
        for (int pair = 0; bits < 8 && pair < half; pair++)
            to[COLUMNS * pair] = (pairs[pair] & 0x0f0f) | (pairs[pair + half] & 0x0f0f) << 4;
        for (int plane = 0; bits < 8 && plane < bits - 4; plane++) {
            uint32_t *bit = (uint32_t *)(at + (8 + 2 * plane) * group);
            for (int pair = 0; pair < group / 2; pair++) {
                uint32_t both = pairs[pair] >> (4 + plane);
                bit[pair] |= ((both & 1) | (both >> 7 & 2)) << 2 * lane;
            }
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
                long byte;
                int shift;
                place(form.group, i, lane, form.bits, &byte, &shift);
                int level = form.bits == 8 ? at[byte] : at[byte] >> shift & 15;
                for (int plane = 0; form.bits < 8 && plane < form.bits - 4; plane++) {
                    long bit = 2 * lane + i % 2;
                    level |= (at[(8 + 2 * plane) * form.group + 4 * (i / 2) + bit / 8] >> bit % 8 & 1) << (4 + plane);
                }
                y[row * in + g * form.group + i] = (float)(level - form.offset) * scale + minimum;
            }
        }
    }
}
