// Products of matrices, rows of floats: nearly all of the time is spent here.
#pragma once
#include "model.h"

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
