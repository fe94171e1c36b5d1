#include "ranks/gemm/libraries.hpp"

#include <algorithm>
#include <array>

#include "core/base/result.hpp"
#include "ranks/gemm/library_file.hpp"

namespace gantry {
namespace {

// Its functions, declared by its ABI (oneDNN 2.x), so that no headers are needed.
using Status = int;
constexpr Status kSuccess = 0;
constexpr Status kOutOfMemory = 1;

using Sgemm = Status(char transpose_a, char transpose_b, std::int64_t m, std::int64_t n,
                     std::int64_t k, float alpha, const float* a, std::int64_t a_stride,
                     const float* b, std::int64_t b_stride, float beta, float* c,
                     std::int64_t c_stride);

struct Version {
  int major;
  int minor;
  int patch;
  const char* hash;
  unsigned cpu_runtime;
  unsigned gpu_runtime;
};
constexpr unsigned kSequential = 1;  // a cpu_runtime
constexpr unsigned kOpenMp = 2;

struct OneDnn {
  LibraryFile file;
  Sgemm* sgemm = nullptr;
  const Version* (*get_version)() = nullptr;
  OpenMp open_mp{};
};

Result<OneDnn> load_onednn() {
  GANTRY_ASSIGN(auto file, LibraryFile::open("libdnnl.so.2", "onednn", "apt install libdnnl2"));
  OneDnn api{.file = std::move(file)};
  GANTRY_TRY(api.file.find("dnnl_sgemm", api.sgemm));
  GANTRY_TRY(api.file.find("dnnl_version", api.get_version));
  const unsigned runtime = api.get_version()->cpu_runtime;
  if (runtime == kSequential) return api;
  if (runtime != kOpenMp)
    return fail(Code::unsupported,
                fmt::format("gemm: onednn: its threads (runtime {}) obey nobody", runtime),
                "install one that is built with OpenMP");
  GANTRY_ASSIGN(api.open_mp, OpenMp::of(api.file));
  return api;
}

// By the values of dnnl_cpu_isa_t.
std::string core_of(const OneDnn& api) {
  struct Isa {
    int value;
    std::string_view name;
  };
  constexpr std::array kNames = {Isa{0x1, "sse41"},
                                 Isa{0x3, "avx"},
                                 Isa{0x7, "avx2"},
                                 Isa{0x27, "avx512_core"},
                                 Isa{0x67, "avx512_core_vnni"},
                                 Isa{0xe7, "avx512_core_bf16"}};
  auto* const get_isa = api.file.find<int()>("dnnl_get_effective_cpu_isa");
  if (get_isa == nullptr) return "not told";
  const int value = get_isa();
  const auto* const known = std::ranges::find(kNames, value, &Isa::value);
  return known != kNames.end() ? std::string(known->name) : fmt::format("isa {:#x}", value);
}

class OneDnnGemm final : public CheckedGemm {
 public:
  OneDnnGemm(const OneDnn& api, unsigned threads)
      : CheckedGemm({"onednn",
                     fmt::format("{}.{}.{}", api.get_version()->major, api.get_version()->minor,
                                 api.get_version()->patch),
                     core_of(api), api.open_mp.set_threads == nullptr ? 1 : std::max(threads, 1u),
                     "asked for"}),
        api_(api) {}

 protected:
  bool takes_element(Element element) const noexcept override { return element == Element::f32; }

  Result<void> compute(const Gemm& product, Element) override {
    const Status status = call(product);
    if (status == kSuccess) return {};
    if (status == kOutOfMemory) return fail(Code::out_of_memory, "gemm: onednn: out of memory");
    return fail(Code::system, fmt::format("gemm: onednn failed with status {}", status));
  }

 private:
  Status call(const Gemm& product) {
    if (api_.open_mp.set_threads == nullptr) return call_now(product);
    const OpenMpLimit limit(api_.open_mp, facts().threads);
    return call_now(product);
  }

  Status call_now(const Gemm& product) {
    return api_.sgemm(
        'N', 'N', product.m, product.n, product.k, 1.0f, reinterpret_cast<const float*>(product.a),
        product.a_stride, reinterpret_cast<const float*>(product.b), product.b_stride,
        product.adds ? 1.0f : 0.0f, reinterpret_cast<float*>(product.c), product.c_stride);
  }

  const OneDnn api_;
};

}  // namespace

Result<std::shared_ptr<GemmLibrary>> make_onednn_gemm(unsigned threads) {
  GANTRY_ASSIGN(const OneDnn api, load_onednn());
  return std::make_shared<OneDnnGemm>(api, threads);
}

}  // namespace gantry
