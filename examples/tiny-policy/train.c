// Trains a tiny Qwen3 in its GGUF file, which is mapped into memory: forward pass, gradients and AdamW. Started by train.ts.
//
//   train <model.gguf> <layout> <sequences> <steps> <batch> <rate> <seed>
//
// The layout is text: the model's shape, then for each tensor its byte offset, its floats, and whether it decays. A sequence is read
// from its first token on; position t predicts token t+1 with that token's weight, and only weighted positions reach the vocabulary.
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_LAYERS = 16, HEAD_TENSORS = 2, LAYER_TENSORS = 11, MAX_TENSORS = HEAD_TENSORS + MAX_LAYERS * LAYER_TENSORS };
enum { EMBEDDING, OUTPUT_NORM };
enum { ATTENTION_NORM, QUERY, KEY, VALUE, ATTENTION_OUTPUT, QUERY_NORM, KEY_NORM, FFN_NORM, GATE, UP, DOWN };

static int vocabulary, width, layers, heads, key_heads, head_width, feed_forward;
static double rope_base, epsilon;
static int query_width, key_width, padded_vocabulary;

typedef struct {
  long offset, length; // in floats, from the first tensor
  int decays;
} Tensor;

static Tensor tensors[MAX_TENSORS];
static int tensor_count;
static long parameter_count; // with the file's padding between tensors, whose gradients stay 0
static float *parameters;

static int tensor_of(int layer, int which) { return HEAD_TENSORS + layer * LAYER_TENSORS + which; }
static float *weights_of(int tensor) { return parameters + tensors[tensor].offset; }

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static float *floats(long count) {
  float *memory = aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64);
  if (!memory) fail("memory");
  memset(memory, 0, count * sizeof(float));
  return memory;
}

static void clear(float *values, long count) { memset(values, 0, count * sizeof(float)); }

static long round_up(long value, long step) { return (value + step - 1) / step * step; }

// ---- Matrices: rows of floats. Everything heavy is one product.

enum { LANES = 16, ROWS = 8 };
typedef float Lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

// C[m,n] += A[m,k] B[k,n]. A's element (i,p) is a[i * a_row + p * a_column], so A may lie transposed; rows of B and C are b_row, c_row apart.
static void add_product(int m, int n, int k, const float *a, long a_row, long a_column, const float *b, long b_row, float *c, long c_row) {
  int j = 0;
  for (; j + LANES <= n; j += LANES) {
    int i = 0;
    for (; i + ROWS <= m; i += ROWS) {
      Lanes sum[ROWS];
      for (int r = 0; r < ROWS; r++) sum[r] = *(const Lanes *)(c + (i + r) * c_row + j);
      for (int p = 0; p < k; p++) {
        const Lanes right = *(const Lanes *)(b + p * b_row + j);
        const float *left = a + i * a_row + p * a_column;
        for (int r = 0; r < ROWS; r++) sum[r] += left[r * a_row] * right;
      }
      for (int r = 0; r < ROWS; r++) *(Lanes *)(c + (i + r) * c_row + j) = sum[r];
    }
    for (; i < m; i++) {
      Lanes sum = *(const Lanes *)(c + i * c_row + j);
      for (int p = 0; p < k; p++) sum += a[i * a_row + p * a_column] * *(const Lanes *)(b + p * b_row + j);
      *(Lanes *)(c + i * c_row + j) = sum;
    }
  }
  for (; j < n; j++)
    for (int i = 0; i < m; i++) {
      float sum = c[i * c_row + j];
      for (int p = 0; p < k; p++) sum += a[i * a_row + p * a_column] * b[p * b_row + j];
      c[i * c_row + j] = sum;
    }
}

// Rows become columns: to[columns][to_row] of from[rows][from_row].
static void transpose(float *to, long to_row, const float *from, long from_row, int rows, int columns) {
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) to[j * to_row + i] = from[i * from_row + j];
}

// The matrices of this step, transposed once for all sequences: [in][out].
static float *transposed[MAX_TENSORS];

static void transpose_matrix(int tensor, int in, int out, long out_padded) {
  if (!transposed[tensor]) transposed[tensor] = floats(in * out_padded);
  transpose(transposed[tensor], out_padded, weights_of(tensor), in, out, in);
}

// y[t,out] = x[t,in] W
static void project(float *y, const float *x, int tensor, int t, int in, int out) {
  clear(y, (long)t * out);
  add_product(t, out, in, x, in, 1, transposed[tensor], out, y, out);
}

// dx += dy W, dW += dy' x
static void project_back(float *dx, float *gradients, const float *dy, const float *x, int tensor, int t, int in, int out) {
  add_product(t, in, out, dy, out, 1, weights_of(tensor), in, dx, in);
  add_product(out, in, t, dy, 1, out, x, in, gradients + tensors[tensor].offset, in);
}

// ---- Root mean square norm over rows of `size`, and rotary positions (each head's halves form the pairs).

static void normalise(float *y, const float *x, const float *gain, long rows, int size) {
  for (long row = 0; row < rows; row++, x += size, y += size) {
    float sum = 0;
    for (int i = 0; i < size; i++) sum += x[i] * x[i];
    const float scale = 1 / sqrtf(sum / size + (float)epsilon);
    for (int i = 0; i < size; i++) y[i] = x[i] * scale * gain[i];
  }
}

// dx += the gradient, dgain += its own.
static void normalise_back(float *dx, float *dgain, const float *dy, const float *x, const float *gain, long rows, int size) {
  for (long row = 0; row < rows; row++, x += size, dx += size, dy += size) {
    float sum = 0, dot = 0;
    for (int i = 0; i < size; i++) sum += x[i] * x[i], dot += dy[i] * gain[i] * x[i];
    const float scale = 1 / sqrtf(sum / size + (float)epsilon), back = dot * scale * scale * scale / size;
    for (int i = 0; i < size; i++) {
      dgain[i] += dy[i] * x[i] * scale;
      dx[i] += dy[i] * gain[i] * scale - x[i] * back;
    }
  }
}

static float *cosines, *sines; // [position][head_width / 2]

static void prepare_rotation(int positions) {
  const int half = head_width / 2;
  cosines = floats((long)positions * half);
  sines = floats((long)positions * half);
  for (long t = 0; t < positions; t++)
    for (int i = 0; i < half; i++) {
      const double angle = t * pow(rope_base, -2.0 * i / head_width);
      cosines[t * half + i] = cos(angle);
      sines[t * half + i] = sin(angle);
    }
}

// direction -1 turns back, which is also how gradients pass.
static void rotate(float *x, int t_count, int head_count, int direction) {
  const int half = head_width / 2;
  for (int t = 0; t < t_count; t++)
    for (int h = 0; h < head_count; h++, x += head_width)
      for (int i = 0; i < half; i++) {
        const float cosine = cosines[t * half + i], sine = direction * sines[t * half + i], a = x[i], b = x[i + half];
        x[i] = a * cosine - b * sine;
        x[i + half] = a * sine + b * cosine;
      }
}

// ---- What one thread keeps of one sequence.

typedef struct {
  float *input, *normed, *raw_query, *raw_key, *value, *query, *key, *attended, *middle, *ffn_normed, *gate, *up, *product;
  float *log_sum; // [head][t]: what turns a score into a probability again
} Layer;

enum { BLOCK = 64 }; // queries whose scores are in the cache at once

typedef struct {
  Layer layer[MAX_LAYERS];
  float *output, *normed, *picked, *logits, *d_picked;
  int *picked_at;
  float *d_stream, *d_width, *d_query, *d_key, *d_value, *d_raw, *d_gate, *d_up, *d_attended;
  float *keys_across, *values_across, *scores, *d_scores;
  float *gradients;
  double loss;
} Work;

static Work open_work(int longest) {
  Work w = {0};
  const long t = longest, padded = round_up(t, LANES);
  for (int l = 0; l < layers; l++)
    w.layer[l] = (Layer){
        .input = floats(t * width), .normed = floats(t * width), .raw_query = floats(t * query_width), .raw_key = floats(t * key_width),
        .value = floats(t * key_width), .query = floats(t * query_width), .key = floats(t * key_width), .attended = floats(t * query_width),
        .middle = floats(t * width), .ffn_normed = floats(t * width), .gate = floats(t * feed_forward), .up = floats(t * feed_forward),
        .product = floats(t * feed_forward), .log_sum = floats(heads * t)};
  w.output = floats(t * width), w.normed = floats(t * width), w.picked = floats(t * width), w.d_picked = floats(t * width);
  w.logits = floats(t * padded_vocabulary), w.picked_at = malloc(t * sizeof(int));
  w.d_stream = floats(t * width), w.d_width = floats(t * width);
  w.d_query = floats(t * query_width), w.d_attended = floats(t * query_width), w.d_key = floats(t * key_width), w.d_value = floats(t * key_width);
  w.d_raw = floats(t * (query_width > key_width ? query_width : key_width)), w.d_gate = floats(t * feed_forward), w.d_up = floats(t * feed_forward);
  w.keys_across = floats(head_width * padded), w.values_across = floats(head_width * padded);
  w.scores = floats(BLOCK * padded), w.d_scores = floats(BLOCK * padded);
  w.gradients = floats(parameter_count);
  return w;
}

// ---- Attention, a block of queries at a time: probabilities are computed again on the way back instead of kept.

// scores[rows][keys padded] of the queries from `first` on, scaled; keys after the query are left to the caller.
static void score_block(Work *w, const Layer *a, int head, int first, int rows, int keys, long padded) {
  for (int r = 0; r < rows; r++) clear(w->scores + r * padded, round_up(keys, LANES));
  add_product(rows, round_up(keys, LANES), head_width, a->query + (long)first * query_width + head * head_width, query_width, 1, w->keys_across,
              padded, w->scores, padded);
  const float scale = 1 / sqrtf(head_width);
  for (int r = 0; r < rows; r++)
    for (int j = 0; j < keys; j++) w->scores[r * padded + j] *= scale;
}

static void attend(Work *w, Layer *a, int t) {
  const long padded = round_up(t, LANES);
  clear(a->attended, (long)t * query_width);
  for (int head = 0; head < heads; head++) {
    const int shared = head / (heads / key_heads);
    if (head % (heads / key_heads) == 0) transpose(w->keys_across, padded, a->key + shared * head_width, key_width, t, head_width);
    for (int first = 0; first < t; first += BLOCK) {
      const int rows = t - first < BLOCK ? t - first : BLOCK, keys = first + rows;
      score_block(w, a, head, first, rows, keys, padded);
      for (int r = 0; r < rows; r++) {
        float *row = w->scores + r * padded, highest = row[0], sum = 0;
        const int seen = first + r + 1;
        for (int j = 1; j < seen; j++) highest = row[j] > highest ? row[j] : highest;
        for (int j = 0; j < seen; j++) row[j] = expf(row[j] - highest), sum += row[j];
        for (int j = 0; j < seen; j++) row[j] /= sum;
        for (int j = seen; j < keys; j++) row[j] = 0;
        a->log_sum[(long)head * t + first + r] = highest + logf(sum);
      }
      add_product(rows, head_width, keys, w->scores, padded, 1, a->value + shared * head_width, key_width,
                  a->attended + (long)first * query_width + head * head_width, query_width);
    }
  }
}

// d_query, d_key and d_value of what was attended, from d_attended.
static void attend_back(Work *w, const Layer *a, int t) {
  const long padded = round_up(t, LANES);
  const float scale = 1 / sqrtf(head_width);
  clear(w->d_query, (long)t * query_width), clear(w->d_key, (long)t * key_width), clear(w->d_value, (long)t * key_width);
  for (int head = 0; head < heads; head++) {
    const int shared = head / (heads / key_heads);
    if (head % (heads / key_heads) == 0) {
      transpose(w->keys_across, padded, a->key + shared * head_width, key_width, t, head_width);
      transpose(w->values_across, padded, a->value + shared * head_width, key_width, t, head_width);
    }
    for (int first = 0; first < t; first += BLOCK) {
      const int rows = t - first < BLOCK ? t - first : BLOCK, keys = first + rows;
      const float *d_out = w->d_attended + (long)first * query_width + head * head_width;
      score_block(w, a, head, first, rows, keys, padded);
      for (int r = 0; r < rows; r++) clear(w->d_scores + r * padded, round_up(keys, LANES));
      add_product(rows, round_up(keys, LANES), head_width, d_out, query_width, 1, w->values_across, padded, w->d_scores, padded);
      for (int r = 0; r < rows; r++) {
        float *row = w->scores + r * padded, *d_row = w->d_scores + r * padded, dot = 0;
        const int seen = first + r + 1;
        const float log_sum = a->log_sum[(long)head * t + first + r];
        for (int j = 0; j < seen; j++) row[j] = expf(row[j] - log_sum), dot += row[j] * d_row[j];
        for (int j = 0; j < seen; j++) d_row[j] = row[j] * (d_row[j] - dot) * scale;
        for (int j = seen; j < keys; j++) row[j] = d_row[j] = 0;
      }
      add_product(rows, head_width, keys, w->d_scores, padded, 1, a->key + shared * head_width, key_width,
                  w->d_query + (long)first * query_width + head * head_width, query_width);
      add_product(keys, head_width, rows, w->d_scores, 1, padded, a->query + (long)first * query_width + head * head_width, query_width,
                  w->d_key + shared * head_width, key_width);
      add_product(keys, head_width, rows, w->scores, 1, padded, d_out, query_width, w->d_value + shared * head_width, key_width);
    }
  }
}

// ---- One sequence: its loss, and its gradients added to the thread's.

static void forward(Work *w, const int *ids, int t) {
  for (int i = 0; i < t; i++) memcpy(w->layer[0].input + (long)i * width, weights_of(EMBEDDING) + (long)ids[i] * width, width * sizeof(float));
  for (int l = 0; l < layers; l++) {
    Layer *a = &w->layer[l];
    float *next = l + 1 < layers ? w->layer[l + 1].input : w->output;
    normalise(a->normed, a->input, weights_of(tensor_of(l, ATTENTION_NORM)), t, width);
    project(a->raw_query, a->normed, tensor_of(l, QUERY), t, width, query_width);
    project(a->raw_key, a->normed, tensor_of(l, KEY), t, width, key_width);
    project(a->value, a->normed, tensor_of(l, VALUE), t, width, key_width);
    normalise(a->query, a->raw_query, weights_of(tensor_of(l, QUERY_NORM)), (long)t * heads, head_width);
    normalise(a->key, a->raw_key, weights_of(tensor_of(l, KEY_NORM)), (long)t * key_heads, head_width);
    rotate(a->query, t, heads, 1);
    rotate(a->key, t, key_heads, 1);
    attend(w, a, t);
    project(a->middle, a->attended, tensor_of(l, ATTENTION_OUTPUT), t, query_width, width);
    for (long i = 0; i < (long)t * width; i++) a->middle[i] += a->input[i];
    normalise(a->ffn_normed, a->middle, weights_of(tensor_of(l, FFN_NORM)), t, width);
    project(a->gate, a->ffn_normed, tensor_of(l, GATE), t, width, feed_forward);
    project(a->up, a->ffn_normed, tensor_of(l, UP), t, width, feed_forward);
    for (long i = 0; i < (long)t * feed_forward; i++) a->product[i] = a->gate[i] / (1 + expf(-a->gate[i])) * a->up[i];
    project(next, a->product, tensor_of(l, DOWN), t, feed_forward, width);
    for (long i = 0; i < (long)t * width; i++) next[i] += a->middle[i];
  }
  normalise(w->normed, w->output, weights_of(OUTPUT_NORM), t, width);
}

// The loss of the weighted positions, divided by `divisor`; leaves d(loss)/d(normed output) in d_width.
static void predict(Work *w, const int *ids, const float *weights, int t, float divisor) {
  int count = 0;
  for (int i = 0; i + 1 < t; i++)
    if (weights[i + 1] != 0) {
      memcpy(w->picked + (long)count * width, w->normed + (long)i * width, width * sizeof(float));
      w->picked_at[count++] = i;
    }
  clear(w->logits, (long)count * padded_vocabulary);
  add_product(count, padded_vocabulary, width, w->picked, width, 1, transposed[EMBEDDING], padded_vocabulary, w->logits, padded_vocabulary);
  for (int c = 0; c < count; c++) {
    float *row = w->logits + (long)c * padded_vocabulary, highest = row[0], sum = 0;
    const int target = ids[w->picked_at[c] + 1];
    const float weight = weights[w->picked_at[c] + 1];
    for (int i = 1; i < vocabulary; i++) highest = row[i] > highest ? row[i] : highest;
    const float target_logit = row[target] - highest;
    for (int i = 0; i < vocabulary; i++) row[i] = expf(row[i] - highest), sum += row[i];
    w->loss -= weight * (target_logit - logf(sum)) / divisor;
    for (int i = 0; i < vocabulary; i++) row[i] *= weight / sum / divisor;
    row[target] -= weight / divisor;
  }
  clear(w->d_picked, (long)count * width);
  add_product(count, width, vocabulary, w->logits, padded_vocabulary, 1, weights_of(EMBEDDING), width, w->d_picked, width);
  add_product(vocabulary, width, count, w->logits, 1, padded_vocabulary, w->picked, width, w->gradients + tensors[EMBEDDING].offset, width);
  clear(w->d_width, (long)t * width);
  for (int c = 0; c < count; c++)
    memcpy(w->d_width + (long)w->picked_at[c] * width, w->d_picked + (long)c * width, width * sizeof(float));
}

static void backward(Work *w, const int *ids, int t) {
  float *const g = w->gradients;
#define GRADIENT(tensor) (g + tensors[tensor].offset)
  clear(w->d_stream, (long)t * width);
  normalise_back(w->d_stream, GRADIENT(OUTPUT_NORM), w->d_width, w->output, weights_of(OUTPUT_NORM), t, width);
  for (int l = layers - 1; l >= 0; l--) {
    const Layer *a = &w->layer[l];
    clear(w->d_gate, (long)t * feed_forward);
    project_back(w->d_gate, g, w->d_stream, a->product, tensor_of(l, DOWN), t, feed_forward, width);
    for (long i = 0; i < (long)t * feed_forward; i++) {
      const float gate = a->gate[i], sigmoid = 1 / (1 + expf(-gate)), d = w->d_gate[i];
      w->d_up[i] = d * gate * sigmoid;
      w->d_gate[i] = d * a->up[i] * sigmoid * (1 + gate * (1 - sigmoid));
    }
    clear(w->d_width, (long)t * width);
    project_back(w->d_width, g, w->d_gate, a->ffn_normed, tensor_of(l, GATE), t, width, feed_forward);
    project_back(w->d_width, g, w->d_up, a->ffn_normed, tensor_of(l, UP), t, width, feed_forward);
    normalise_back(w->d_stream, GRADIENT(tensor_of(l, FFN_NORM)), w->d_width, a->middle, weights_of(tensor_of(l, FFN_NORM)), t, width);

    clear(w->d_attended, (long)t * query_width);
    project_back(w->d_attended, g, w->d_stream, a->attended, tensor_of(l, ATTENTION_OUTPUT), t, query_width, width);
    attend_back(w, a, t);
    rotate(w->d_query, t, heads, -1);
    rotate(w->d_key, t, key_heads, -1);
    clear(w->d_width, (long)t * width);
    clear(w->d_raw, (long)t * query_width);
    normalise_back(w->d_raw, GRADIENT(tensor_of(l, QUERY_NORM)), w->d_query, a->raw_query, weights_of(tensor_of(l, QUERY_NORM)),
                   (long)t * heads, head_width);
    project_back(w->d_width, g, w->d_raw, a->normed, tensor_of(l, QUERY), t, width, query_width);
    clear(w->d_raw, (long)t * key_width);
    normalise_back(w->d_raw, GRADIENT(tensor_of(l, KEY_NORM)), w->d_key, a->raw_key, weights_of(tensor_of(l, KEY_NORM)),
                   (long)t * key_heads, head_width);
    project_back(w->d_width, g, w->d_raw, a->normed, tensor_of(l, KEY), t, width, key_width);
    project_back(w->d_width, g, w->d_value, a->normed, tensor_of(l, VALUE), t, width, key_width);
    normalise_back(w->d_stream, GRADIENT(tensor_of(l, ATTENTION_NORM)), w->d_width, a->input, weights_of(tensor_of(l, ATTENTION_NORM)), t,
                   width);
  }
  for (int i = 0; i < t; i++)
    for (int j = 0; j < width; j++) GRADIENT(EMBEDDING)[(long)ids[i] * width + j] += w->d_stream[(long)i * width + j];
#undef GRADIENT
}

// ---- AdamW, over the sum of the threads' gradients.

static float *first_moment, *second_moment;

static void update(float *gradients, int step, int steps, float peak_rate) {
  const float keep_first = 0.9f, keep_second = 0.98f, decay = 0.01f, longest = 1;
  const int warm_up = steps < 200 ? steps / 10 + 1 : 20;
  const float progress = step < warm_up ? 0 : (float)(step - warm_up) / (steps - warm_up + 1);
  const float rate = peak_rate * (step < warm_up ? (float)step / warm_up : 0.02f + 0.98f * 0.5f * (1 + cosf(M_PI * progress)));
  const float first_bias = 1 - powf(keep_first, step), second_bias = 1 - powf(keep_second, step);
  double square = 0;
#pragma omp parallel for reduction(+ : square)
  for (long i = 0; i < parameter_count; i++) square += (double)gradients[i] * gradients[i];
  const float clip = square > longest * longest ? longest / sqrt(square) : 1;
  for (int n = 0; n < tensor_count; n++) {
    const long from = tensors[n].offset, to = from + tensors[n].length;
    const float shrink = tensors[n].decays ? 1 - rate * decay : 1;
#pragma omp parallel for
    for (long i = from; i < to; i++) {
      const float gradient = gradients[i] * clip;
      first_moment[i] = keep_first * first_moment[i] + (1 - keep_first) * gradient;
      second_moment[i] = keep_second * second_moment[i] + (1 - keep_second) * gradient * gradient;
      parameters[i] = parameters[i] * shrink - rate * (first_moment[i] / first_bias) / (sqrtf(second_moment[i] / second_bias) + 1e-8f);
    }
  }
}

// ---- Files.

static void *map(const char *path, int protection, int flags, long *size) {
  const int file = open(path, protection & PROT_WRITE ? O_RDWR : O_RDONLY);
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0) fail(path);
  *size = status.st_size;
  void *memory = mmap(NULL, status.st_size, protection, flags, file, 0);
  if (memory == MAP_FAILED) fail(path);
  close(file);
  return memory;
}

static void read_layout(const char *path, char *model) {
  FILE *file = fopen(path, "r");
  if (!file) fail(path);
  if (fscanf(file, "%d %d %d %d %d %d %d %lf %lf", &vocabulary, &width, &layers, &heads, &key_heads, &head_width, &feed_forward, &rope_base,
             &epsilon) != 9 || layers > MAX_LAYERS)
    fail("the layout's shape");
  long bytes, length, start = -1;
  int decays;
  while (fscanf(file, "%ld %ld %d", &bytes, &length, &decays) == 3 && tensor_count < MAX_TENSORS) {
    if (start < 0) start = bytes;
    tensors[tensor_count++] = (Tensor){.offset = (bytes - start) / (long)sizeof(float), .length = length, .decays = decays};
    const long end = (bytes - start) / (long)sizeof(float) + length;
    parameter_count = end > parameter_count ? end : parameter_count;
  }
  fclose(file);
  if (tensor_count != HEAD_TENSORS + layers * LAYER_TENSORS) fail("the layout's tensors");
  parameters = (float *)(model + start);
  query_width = heads * head_width, key_width = key_heads * head_width, padded_vocabulary = round_up(vocabulary, LANES);
}

typedef struct {
  int length;
  const int *ids;
  const float *weights;
} Sequence;

static Sequence *read_sequences(const char *path, int *count, int *longest) {
  long size;
  const int *words = map(path, PROT_READ, MAP_PRIVATE, &size);
  *count = words[0];
  Sequence *sequences = malloc(*count * sizeof(Sequence));
  long at = 1;
  for (int i = 0; i < *count; i++) {
    const int length = words[at];
    sequences[i] = (Sequence){length, words + at + 1, (const float *)(words + at + 1 + length)};
    *longest = length > *longest ? length : *longest;
    at += 1 + 2L * length;
  }
  return sequences;
}

static unsigned long random_state;
static unsigned long next_random(void) {
  random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
  return random_state;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec / 1e9;
}

static void transpose_all(void) {
  transpose_matrix(EMBEDDING, width, vocabulary, padded_vocabulary);
  for (int l = 0; l < layers; l++) {
    transpose_matrix(tensor_of(l, QUERY), width, query_width, query_width);
    transpose_matrix(tensor_of(l, KEY), width, key_width, key_width);
    transpose_matrix(tensor_of(l, VALUE), width, key_width, key_width);
    transpose_matrix(tensor_of(l, ATTENTION_OUTPUT), query_width, width, width);
    transpose_matrix(tensor_of(l, GATE), width, feed_forward, feed_forward);
    transpose_matrix(tensor_of(l, UP), width, feed_forward, feed_forward);
    transpose_matrix(tensor_of(l, DOWN), feed_forward, width, width);
  }
}

int main(int argument_count, char **arguments) {
  if (argument_count != 8) {
    fprintf(stderr, "usage: train <model.gguf> <layout> <sequences> <steps> <batch> <rate> <seed>\n");
    return 2;
  }
  long size;
  char *model = map(arguments[1], PROT_READ | PROT_WRITE, MAP_SHARED, &size);
  read_layout(arguments[2], model);
  int count, longest = 0;
  Sequence *sequences = read_sequences(arguments[3], &count, &longest);
  const int steps = atoi(arguments[4]), batch = atoi(arguments[5]);
  const float rate = atof(arguments[6]);
  random_state = 0x9e3779b97f4a7c15UL * (atoi(arguments[7]) + 1);
  prepare_rotation(longest);
  first_moment = floats(parameter_count), second_moment = floats(parameter_count);
  const int threads = omp_get_max_threads();
  Work *work = malloc(threads * sizeof(Work));
  for (int i = 0; i < threads; i++) work[i] = open_work(longest);

  int next = count; // sequences in a new order each time all were seen
  long tokens = 0;
  const double start = seconds();
  Sequence *chosen = malloc(batch * sizeof(Sequence));
  for (int step = 1; step <= steps; step++) {
    double weight = 0;
    for (int b = 0; b < batch; b++) {
      if (next == count) {
        for (int i = count - 1; i > 0; i--) {
          const int other = next_random() % (i + 1);
          const Sequence moved = sequences[i];
          sequences[i] = sequences[other], sequences[other] = moved;
        }
        next = 0;
      }
      chosen[b] = sequences[next++];
      tokens += chosen[b].length;
      for (int i = 1; i < chosen[b].length; i++) weight += fabsf(chosen[b].weights[i]);
    }
    transpose_all();
    for (int i = 0; i < threads; i++) clear(work[i].gradients, parameter_count), work[i].loss = 0;
#pragma omp parallel for schedule(dynamic)
    for (int b = 0; b < batch; b++) {
      Work *w = &work[omp_get_thread_num()];
      forward(w, chosen[b].ids, chosen[b].length);
      predict(w, chosen[b].ids, chosen[b].weights, chosen[b].length, weight > 0 ? weight : 1);
      backward(w, chosen[b].ids, chosen[b].length);
    }
    double loss = work[0].loss;
    for (int i = 1; i < threads; i++) {
      loss += work[i].loss;
      for (long p = 0; p < parameter_count; p++) work[0].gradients[p] += work[i].gradients[p];
    }
    update(work[0].gradients, step, steps, rate);
    printf("%d %.9g %.0f\n", step, loss, tokens / (seconds() - start));
    fflush(stdout);
  }
  msync(model, size, MS_SYNC);
  return 0;
}
