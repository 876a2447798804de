// The kernels there are, as functions for host code: those with matrix products for one element type, pair of widths and
// family; the others for one element type.
#pragma once

#include "nsa/kernels/attend/params.h"
#include "nsa/kernels/attention.h"
#include "nsa/kernels/choose/params.h"
#include "nsa/kernels/combine/params.h"
#include "nsa/kernels/compress/params.h"
#include "nsa/kernels/lists/params.h"
#include "nsa/kernels/merge/params.h"
#include "nsa/kernels/norm/params.h"
#include "nsa/kernels/rotate/params.h"
#include "nsa/kernels/selected/params.h"

namespace nsa::kernels {

// Rows of d_k and d_v elements up to k_columns and v_columns.
struct MatrixKernels {
  Element element;
  Family family;
  int k_columns;
  int v_columns;
  int forward_rows;  // rows of a tile
  int gradient_rows;
  int gradient_keys;  // keys of a tile
  int score_queries;
  int score_keys;
  // Slots of row tiles (or items) in x; groups in y; branches (or those that are together) in z.
  void (*forward)(const ForwardParams&, std::int64_t tiles, Stream);
  void (*query_gradient)(const QueryGradientParams&, std::int64_t tiles, Stream);
  void (*key_gradient)(const KeyGradientParams&, std::int64_t tiles, Stream);
  void (*selected_forward)(const SelectedParams&, std::int64_t items, Stream);
  void (*selected_backward)(const SelectedParams&, std::int64_t items, Stream);
  void (*score)(const ScoreParams&, std::int64_t tiles, Stream);
};

struct ElementKernels {
  void (*pool)(const PoolParams&, int tensors, std::int64_t compressed_rows, Stream);
  void (*sum_segments)(const PoolParams&, std::int64_t compressed_rows, Stream);
  void (*pool_gradient)(const PoolParams&, int tensors, std::int64_t rows, Stream);
  void (*conv_gradient)(const PoolParams&, int tensors, Stream);
  void (*combine)(const CombineParams&, Stream);
  void (*combine_gradient)(const CombineGradientParams&, Stream);
  void (*merge_outputs)(const MergeOutputsParams&, Stream);
  void (*merge_gradients)(const MergeGradientsParams&, Stream);
  void (*key_results)(const KeyResultParams&, int branches, std::int64_t keys, Stream);
  void (*rotate)(const RotateParams&, Stream);
  void (*norm)(const NormParams&, Stream);
  void (*norm_backward)(const NormParams&, Stream);
};

// Null where there is none.
const MatrixKernels* find_matrix_kernels(Element element, int d_k, int d_v, Family family);
const ElementKernels* find_element_kernels(Element element);

void invert_lists(const ListParams& p, Stream stream);
void select_best_blocks(const SelectParams& p, Stream stream);
void fill_zero(void* memory, std::size_t bytes, Stream stream);
// Of the current device: 90 for 9.0.
int device_capability();

}  // namespace nsa::kernels
