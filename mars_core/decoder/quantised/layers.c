/* Layers of a decoder, for x86 processors with AVX2: norms, products, rotary positions, attention and the feed-forward
block in one call. A row's sums have one order, which follows from its position alone: its result depends on nothing
but the row and what was read before it.

Shapes: n rows, H width, d head size, d' <= d turned dimensions of it, F width of the feed-forward block. */

#include "products.c"

typedef struct {
    const float *gain; /* 0: there is no norm */
    float eps;
} Norm;

typedef struct {
    Product qkv, output, up, down; /* ``up``: F rows of the gate, and F more */
    Norm before, mixed, inner, after, heads; /* of ``heads`` the gain is [query and key heads, d] */
    const float *cos, *sin; /* [positions, d'], the first half of the sines negated */
    float *cache; /* [keys of all key heads, values of all key heads, length, d] */
    long queries, keys, size, turned, length, window, gelu; /* heads; positions, of which ``window`` are in sight */
    float scale;
} Layer;

typedef struct {
    long rows, ahead;
    const int64_t *positions, *entries, *roots, *bases; /* [n] */
    const int64_t *places; /* [n, ahead] entries of the positions from the root on, counted from it */
} Pass;

/* e^x within 2 units of the last place, for x from -87 on; below as for -87, above 88 as for 88. */
ALWAYS Vector exponential(Vector x) {
    Vector low = x * 0 - 87, high = x * 0 + 88;
    x = chosen(x < low, low, x);
    x = chosen(x > high, high, x);
    Vector n = (x * 1.44269504f + 12582912.0f) - 12582912.0f, r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    Vector y = r * 1.9875691500e-4f + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * r * r + r + 1;
    return y * (Vector)((__builtin_convertvector(n, Whole) + 127) << 23);
}

/* The sums of the lanes of 8 vectors, in one order -> ``to`` [8]. */
ALWAYS void totals(const Vector *x, float *to) {
    __m256 half[8];
    for (int n = 0; n < 8; n++) half[n] = folded(x[n]);
    for (int n = 0; n < 4; n++) half[n] = _mm256_hadd_ps(half[2 * n], half[2 * n + 1]);
    for (int n = 0; n < 2; n++) half[n] = _mm256_hadd_ps(half[2 * n], half[2 * n + 1]);
    __m256 low = _mm256_permute2f128_ps(half[0], half[1], 0x20), high = _mm256_permute2f128_ps(half[0], half[1], 0x31);
    _mm256_storeu_ps(to, _mm256_add_ps(low, high));
}

/* x [size] normed -> y, which may be x. */
ALWAYS void normed(const float *x, Norm by, const float *gain, long size, float *y) {
    Vector squares = {0};
    for (long i = 0; i < size; i += LANES) squares += load(x + i) * load(x + i);
    float factor = by.gain ? 1 / sqrtf(total(squares) / (float)size + by.eps) : 1;
    for (long i = 0; i < size; i += LANES) put(y + i, by.gain ? load(x + i) * factor * load(gain + i) : load(x + i));
}

/* Turns the queries and keys of a row, and stores its keys and values. */
static void turn(const Layer *of, const Pass *pass, long row, float *qkv) {
    long size = of->size, half = of->turned / 2, turned = of->queries + of->keys;
    const float *cos = of->cos + pass->positions[row] * of->turned, *sin = of->sin + pass->positions[row] * of->turned;
    for (long i = 0; of->qkv.bias && i < of->qkv.out; i++) qkv[i] += of->qkv.bias[i];
    for (long head = 0; head < turned + of->keys; head++) {
        float *x = qkv + head * size;
        if (head < turned) {
            if (of->heads.gain) normed(x, of->heads, of->heads.gain + head * size, size, x);
            for (long i = 0; i < half; i++) {
                float first = x[i], second = x[i + half];
                x[i] = first * cos[i] + second * sin[i];
                x[i + half] = second * cos[i + half] + first * sin[i + half];
            }
        }
        if (head >= of->queries)
            memcpy(of->cache + ((head - of->queries) * of->length + pass->entries[row]) * size, x, size * sizeof *x);
    }
}

/* The values at the positions from ``first`` on by their ``weights`` [count], of 16 * ``vectors`` dimensions. */
ALWAYS void weighed(int vectors, const float *weights, const int64_t *entries, long count, const float *values, long size,
                    float factor, float *to) {
    Vector sum[vectors];
    for (int v = 0; v < vectors; v++) sum[v] = (Vector){0};
    for (long j = 0; j < count; j++)
        for (int v = 0; v < vectors; v++) sum[v] += weights[j] * load(values + entries[j] * size + v * LANES);
    for (int v = 0; v < vectors; v++) put(to + v * LANES, sum[v] * factor);
}

/* What a query head of a row attends to -> ``to`` [d]. ``scores`` and ``entries`` have room for all
   positions and up to the next multiple of LANES. */
static void attend(const Layer *of, const Pass *pass, long row, long head, const float *query, float *scores,
                   int64_t *entries, float *to) {
    long size = of->size, last = pass->positions[row], root = pass->roots[row], base = pass->bases[row];
    long first = of->window && last >= of->window ? last - of->window + 1 : 0, count = last + 1 - first;
    long key = head / (of->queries / of->keys);
    const float *keys = of->cache + key * of->length * size, *values = keys + of->keys * of->length * size;
    for (long j = 0; j < count; j++) {
        long at = first + j;
        entries[j] = base + (at < root ? at : root + pass->places[row * pass->ahead + at - root]);
    }
    for (long j = count; j % LANES; j++) entries[j] = entries[0];
    for (long j = 0; j < count; j += 8) {
        Vector sums[8] = {0};
        for (long i = 0; i < size; i += LANES) {
            Vector part = load(query + i) * of->scale;
#pragma GCC unroll 8
            for (int n = 0; n < 8; n++) sums[n] += part * load(keys + entries[j + n] * size + i);
        }
        totals(sums, scores + j);
    }
    for (long j = count; j % LANES; j++) scores[j] = scores[0];
    Vector tops = load(scores), sum = {0};
    for (long j = LANES; j < count; j += LANES) tops = chosen(load(scores + j) > tops, load(scores + j), tops);
    float most = largest(tops);
    for (long j = count; j % LANES; j++) scores[j] = most - 200;
    for (long j = 0; j < count; j += LANES) {
        Vector weights = exponential(load(scores + j) - most);
        put(scores + j, weights);
        sum += weights;
    }
    float factor = 1 / total(sum);
    for (long i = 0; i < size; i += 4 * LANES) {
        long left = (size - i) / LANES;
        if (left >= 4) weighed(4, scores, entries, count, values + i, size, factor, to + i);
        if (left == 3) weighed(3, scores, entries, count, values + i, size, factor, to + i);
        if (left == 2) weighed(2, scores, entries, count, values + i, size, factor, to + i);
        if (left == 1) weighed(1, scores, entries, count, values + i, size, factor, to + i);
    }
}

/* A row of the gate and of what it lets through [2F] -> [F]. */
static void gated(const Layer *of, const float *x, float *to) {
    long size = of->down.in;
    for (long i = 0; i < size; i += LANES) {
        Vector gate = load(x + i), t = of->gelu ? 1.59576912f * (gate + 0.044715f * gate * gate * gate) : gate;
        put(to + i, gate / (1 + exponential(-t)) * load(x + size + i));
    }
}

ALWAYS void biased(Product of, float *y) {
    for (long i = 0; of.bias && i < of.out; i++) y[i] += of.bias[i];
}

/* x [n, in of qkv], residual [n, H], which becomes the layer's output; they may be the same. 0: done. */
int mars_layer(const Layer *of, const Pass *pass, const float *x, float *residual, int threads) {
    long rows = pass->rows, width = of->output.out, wide = of->qkv.in > width ? of->qkv.in : width;
    long most = wide, heads = of->queries * of->size, length = (of->length + LANES - 1) / LANES * LANES;
    if (heads > most) most = heads;
    if (of->down.in > most) most = of->down.in;
    long floats = rows * (most + wide + of->qkv.out + of->up.out) + threads * length;
    char *memory = malloc(floats * sizeof(float) + threads * length * sizeof(int64_t) + input_size(rows, most));
    if (!memory) return 1;
    int64_t *entries = (int64_t *)memory;
    float *input = (float *)(entries + threads * length), *product = input + rows * most;
    float *qkv = product + rows * wide, *up = qkv + rows * of->qkv.out, *scores = up + rows * of->up.out;
    char *levels = (char *)(scores + threads * length);
#pragma omp parallel num_threads(threads)
    {
        long thread = omp_get_thread_num() * length;
#pragma omp for
        for (long r = 0; r < rows; r++)
            normed(x + r * of->qkv.in, of->before, of->before.gain, of->qkv.in, input + r * of->qkv.in);
        multiply(input, rows, of->qkv, levels, qkv);
#pragma omp for
        for (long r = 0; r < rows; r++) turn(of, pass, r, qkv + r * of->qkv.out);
#pragma omp for
        for (long at = 0; at < rows * of->queries; at++) {
            long r = at / of->queries, head = at % of->queries;
            attend(of, pass, r, head, qkv + r * of->qkv.out + head * of->size, scores + thread, entries + thread,
                   input + r * heads + head * of->size);
        }
        multiply(input, rows, of->output, levels, product);
#pragma omp for
        for (long r = 0; r < rows; r++) {
            float *y = product + r * width, *to = residual + r * width;
            biased(of->output, y);
            normed(y, of->mixed, of->mixed.gain, width, y);
            for (long i = 0; i < width; i++) to[i] += y[i];
            normed(to, of->inner, of->inner.gain, width, input + r * width);
        }
        multiply(input, rows, of->up, levels, up);
#pragma omp for
        for (long r = 0; r < rows; r++) {
            biased(of->up, up + r * of->up.out);
            gated(of, up + r * of->up.out, input + r * of->down.in);
        }
        multiply(input, rows, of->down, levels, product);
#pragma omp for
        for (long r = 0; r < rows; r++) {
            float *y = product + r * width;
            biased(of->down, y);
            normed(y, of->after, of->after.gain, width, y);
            for (long i = 0; i < width; i++) residual[r * width + i] += y[i];
        }
    }
    free(memory);
    return 0;
}

/* x [n, in], normed, times ``by`` -> y [n, out]. 0: done. */
int mars_output(const Product *by, Norm norm, const float *x, long rows, float *y, int threads) {
    char *memory = malloc(rows * by->in * sizeof(float) + input_size(rows, by->in));
    if (!memory) return 1;
    float *input = (float *)memory;
#pragma omp parallel num_threads(threads)
    {
#pragma omp for
        for (long r = 0; r < rows; r++) normed(x + r * by->in, norm, norm.gain, by->in, input + r * by->in);
        multiply(input, rows, *by, (char *)(input + rows * by->in), y);
#pragma omp for
        for (long r = 0; r < rows; r++) biased(*by, y + r * by->out);
    }
    free(memory);
    return 0;
}
