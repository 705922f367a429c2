// The files the trainer maps: the model itself, and the sequences it is trained on.
#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "matrix.h"

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
