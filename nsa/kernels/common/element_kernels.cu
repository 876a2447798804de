#include "nsa/kernels/choose/select.cuh"
#include "nsa/kernels/combine/kernel.cuh"
#include "nsa/kernels/common/kernels.h"
#include "nsa/kernels/common/launch.h"
#include "nsa/kernels/compress/kernel.cuh"
#include "nsa/kernels/lists/kernel.cuh"
#include "nsa/kernels/merge/kernel.cuh"
#include "nsa/kernels/norm/kernel.cuh"
#include "nsa/kernels/rotate/kernel.cuh"

#if defined(NSA_EMULATED)
#include <cstring>
#endif

namespace nsa::kernels {
namespace {

int most_chunks(const PoolParams& p, int tensors) {
  int chunks = p.tensors[0].chunks;
  for (int i = 1; i < tensors; ++i) chunks = larger(chunks, p.tensors[i].chunks);
  return chunks;
}

template <class E>
struct ElementSet {
  static void pool(const PoolParams& p, int tensors, std::int64_t rows, Stream stream) {
    launch(kernels::pool<E>,
           {ceil_div(rows * most_chunks(p, tensors), kPoolThreads), p.common.groups, tensors},
           kPoolThreads,
           0,
           stream,
           p);
  }
  static void sum_segments(const PoolParams& p, std::int64_t compressed_rows, Stream stream) {
    launch(
        kernels::sum_segments,
        {ceil_div(compressed_rows * (p.tensors[0].columns / 8), kPoolThreads), p.common.groups, 1},
        kPoolThreads,
        0,
        stream,
        p);
  }
  static void pool_gradient(const PoolParams& p, int tensors, std::int64_t rows, Stream stream) {
    launch(kernels::pool_gradient<E>,
           {ceil_div(rows * most_chunks(p, tensors), kPoolThreads), p.common.groups, tensors},
           kPoolThreads,
           0,
           stream,
           p);
  }
  static void conv_gradient(const PoolParams& p, int tensors, Stream stream) {
    const int l = p.common.geometry.l;
    launch(kernels::conv_gradient<E>, {p.parts, l, tensors}, kPoolThreads, 0, stream, p);
    launch(conv_sum,
           {ceil_div(static_cast<std::int64_t>(most_chunks(p, tensors)) * 8 * l, kPoolThreads),
            1,
            tensors},
           kPoolThreads,
           0,
           stream,
           p);
  }
  static void combine(const CombineParams& p, Stream stream) {
    launch(combine_branches<E>,
           {ceil_div(p.common.tokens, kCombineThreads / 32), p.common.groups, 1},
           kCombineThreads,
           0,
           stream,
           p);
  }
  static void combine_gradient(const CombineGradientParams& p, Stream stream) {
    launch(kernels::combine_gradient<E>,
           {ceil_div(p.common.tokens, kCombineThreads / 32), p.common.groups, 1},
           kCombineThreads,
           0,
           stream,
           p);
  }
  static GridSize merge_grid(const MergeRows& rows) {
    return {ceil_div(rows.to - rows.from, rows.queries), rows.parts.groups, 1};
  }
  static void merge_outputs(const MergeOutputsParams& p, Stream stream) {
    launch(p.rows.parts.is_narrow() ? kernels::merge_outputs<E, NarrowOf<E>>
                                    : kernels::merge_outputs<E, Wide>,
           merge_grid(p.rows),
           kMergeThreads,
           kMergeSharedBytes,
           stream,
           p);
  }
  static void merge_gradients(const MergeGradientsParams& p, Stream stream) {
    launch(p.rows.parts.is_narrow() ? kernels::merge_gradients<E, NarrowOf<E>>
                                    : kernels::merge_gradients<E, Wide>,
           merge_grid(p.rows),
           kMergeThreads,
           kMergeSharedBytes,
           stream,
           p);
  }
  static void key_results(const KeyResultParams& p,
                          int branches,
                          std::int64_t keys,
                          Stream stream) {
    const std::int64_t chunks = p.common.k_chunks + p.common.v_chunks;
    launch(kernels::key_results<E>,
           {ceil_div(keys * chunks, kKeyResultThreads), p.common.groups, branches},
           kKeyResultThreads,
           0,
           stream,
           p);
  }
  static void rotate(const RotateParams& p, Stream stream) {
    const std::int64_t threads = p.tokens * (p.groups + p.key_heads) * p.chunks;
    launch(rotate_rows<E>, {ceil_div(threads, kRotateThreads), 1, 1}, kRotateThreads, 0, stream, p);
  }
  template <int kChunks>
  static void norm_of(const NormParams& p, Stream stream) {
    launch(norm_forward<E, kChunks>, {kNormBlocks, 1, 1}, kNormThreads, 0, stream, p);
  }
  template <int kChunks>
  static void norm_backward_of(const NormParams& p, Stream stream) {
    const int columns = p.chunks * 8;
    launch(kernels::norm_backward<E, kChunks>,
           {kNormBlocks, 1, 1},
           kNormThreads,
           4 * kNormWarps * columns,
           stream,
           p);
    launch(
        norm_weight_gradient<E>, {ceil_div(columns, kNormWarps), 1, 1}, kNormThreads, 0, stream, p);
  }
  static void norm(const NormParams& p, Stream stream) {
    const std::int64_t of_lane = ceil_div(p.chunks, 32);
    const auto run = of_lane <= 1   ? norm_of<1>
                     : of_lane <= 2 ? norm_of<2>
                     : of_lane <= 3 ? norm_of<3>
                     : of_lane <= 4 ? norm_of<4>
                                    : norm_of<8>;
    run(p, stream);
  }
  static void norm_backward(const NormParams& p, Stream stream) {
    const std::int64_t of_lane = ceil_div(p.chunks, 32);
    const auto run = of_lane <= 1   ? norm_backward_of<1>
                     : of_lane <= 2 ? norm_backward_of<2>
                     : of_lane <= 3 ? norm_backward_of<3>
                     : of_lane <= 4 ? norm_backward_of<4>
                                    : norm_backward_of<8>;
    run(p, stream);
  }
  static constexpr ElementKernels kTable{pool,
                                         sum_segments,
                                         pool_gradient,
                                         conv_gradient,
                                         combine,
                                         combine_gradient,
                                         merge_outputs,
                                         merge_gradients,
                                         key_results,
                                         rotate,
                                         norm,
                                         norm_backward};
};

}  // namespace

const ElementKernels* find_element_kernels(Element element) {
  return element == Element::bf16 ? &ElementSet<Bf16>::kTable : &ElementSet<Fp16>::kTable;
}

void invert_lists(const ListParams& p, Stream stream) {
  const int groups = p.common.groups;
  launch(count_picks, {p.strips, groups, 1}, kListThreads, 4 * p.window, stream, p);
  launch(sum_strips, {ceil_div(p.slots, 32), groups, 1}, kListThreads, 4 * kListThreads, stream, p);
  launch(fill_lists,
         {p.strips + static_cast<std::int64_t>(p.ranges) * kItemBlocks, groups, 1},
         kListThreads,
         4 * (p.window * p.placers + kScratchWords),
         stream,
         p);
}

void select_best_blocks(const SelectParams& p, Stream stream) {
  launch(select_best,
         {ceil_div(p.to - p.from, kSelectThreads / 32), p.common.groups, 1},
         kSelectThreads,
         0,
         stream,
         p);
}

#if defined(NSA_EMULATED)
void fill_zero(void* memory, std::size_t bytes, Stream) {
  std::memset(memory, 0, bytes);
}
int device_capability() {
  return 90;
}
#else
void fill_zero(void* memory, std::size_t bytes, Stream stream) {
  check(cudaMemsetAsync(memory, 0, bytes, stream), "filling memory with zeros");
}
int device_capability() {
  int device = 0;
  int major = 0;
  int minor = 0;
  check(cudaGetDevice(&device), "current device");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "device");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "device");
  return 10 * major + minor;
}
#endif

}  // namespace nsa::kernels
