// Root mean square norm over rows of `size`, and rotary positions, whose pairs are the halves of a head; each with its way back.
#pragma once
#include <math.h>
#include "model.h"

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
