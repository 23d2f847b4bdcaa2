// dtc_gemm implemented by another library, so that gemm_floor measures it: oneDNN's sgemm (PEER_ONEDNN) or a BLAS.
#include "runtime/kernels/cpu/kernels.h"

#ifdef PEER_ONEDNN
#include <dnnl.h>
#else
extern "C" void cblas_sgemm(int order, int transposeA, int transposeB, int m, int n, int k, float alpha, const float *a,
                            int lda, const float *b, int ldb, float beta, float *c, int ldc);
#endif

/// Whole products only: these libraries do not divide a product as dtc's executor does.
extern "C" void dtc_gemm(void *const *buffers, const int64_t *s, int64_t, int64_t) {
  const float *a = static_cast<const float *>(buffers[0]), *b = static_cast<const float *>(buffers[1]);
  float *c = static_cast<float *>(buffers[2]);
  float beta = s[12] ? 1.0f : 0.0f;
#ifdef PEER_ONEDNN
  dnnl_sgemm(s[4] ? 'T' : 'N', s[5] ? 'T' : 'N', s[1], s[2], s[3], 1.0f, a, s[6], b, s[7], beta, c, s[8]);
#else
  constexpr int rowMajor = 101, plain = 111, transposed = 112;
  cblas_sgemm(rowMajor, s[4] ? transposed : plain, s[5] ? transposed : plain, static_cast<int>(s[1]),
              static_cast<int>(s[2]), static_cast<int>(s[3]), 1.0f, a, static_cast<int>(s[6]), b,
              static_cast<int>(s[7]), beta, c, static_cast<int>(s[8]));
#endif
}
