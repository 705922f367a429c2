// Trains a tiny Qwen3 in its GGUF file, which is mapped into memory: forward pass, gradients and AdamW. Started by ../train.ts.
//
//   train <model.gguf> <layout> <sequences> <steps> <batch> <rate> <seed> <sharpens>
//
// The layout is text: the model's shape, then for each tensor its byte offset, its floats, and whether it decays. A sequence is read
// from its first token on; position t predicts token t+1 with that token's weight, and only weighted positions reach the vocabulary.
// Each thread takes whole sequences of a batch.
#include <omp.h>
#include <time.h>
#include "adamw.h"
#include "files.h"
#include "network.h"
#include "sharpening.h"

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

int main(int argument_count, char **arguments) {
  if (argument_count != 9) {
    fprintf(stderr, "usage: train <model.gguf> <layout> <sequences> <steps> <batch> <rate> <seed> <sharpens>\n");
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
  if (atoi(arguments[8])) sharpen(work, threads, sequences, count);
  msync(model, size, MS_SYNC);
  return 0;
}
