// What is told of kernels and of refusals: names, not templates; reasons, not exceptions.
#include "harness/worker/watch/kernel_trace.h"

#include <stdexcept>

#include <gtest/gtest.h>

#include "harness/worker/error_report.h"
#include "nsa/seams/refused.h"

namespace harness {
namespace {

TEST(KernelNames, AreTheFunctionsAlone) {
  EXPECT_EQ(
      kernel_name("void pytorch_flash::flash_fwd_kernel<Traits<64, 128>, false, true>(Params)"),
      "pytorch_flash::flash_fwd_kernel");
  EXPECT_EQ(kernel_name("void at::native::(anonymous namespace)::fill<float>(int, float*)"),
            "at::native::(anonymous namespace)::fill");
  EXPECT_EQ(kernel_name("sm90_xmma_gemm_bf16_tn_n"), "sm90_xmma_gemm_bf16_tn_n");
  EXPECT_EQ(kernel_name("plain(int)"), "plain");
  EXPECT_EQ(kernel_name(""), "");
  EXPECT_EQ(kernel_name(std::string(5000, 'x')).size(), 123u);
}

TEST(Refusals, AreToldByTheirReason) {
  try {
    throw nsa::Refused("attend_win", "fa2", "device cpu", 3);
  } catch (...) {
    const auto refusal = refusal_in_current_exception();
    ASSERT_TRUE(refusal.has_value());
    EXPECT_EQ(refusal->seam, "attend_win");
    EXPECT_EQ(refusal->requested, "fa2");
    EXPECT_EQ(refusal->reason, "device cpu");
    EXPECT_EQ(refusal->layer, 3);
    EXPECT_EQ(describe_current_exception("forward", 1).what,
              "seam attend_win: implementation fa2 cannot do device cpu");
  }
  try {
    throw std::runtime_error("boom");
  } catch (...) {
    EXPECT_FALSE(refusal_in_current_exception().has_value());
  }
}

}  // namespace
}  // namespace harness
