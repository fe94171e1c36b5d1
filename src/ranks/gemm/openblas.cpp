#include "ranks/gemm/libraries.hpp"

#include <algorithm>
#include <limits>
#include <mutex>

#include "core/base/result.hpp"
#include "ranks/gemm/library_file.hpp"

namespace gantry {
namespace {

// Its functions, declared by its ABI, so that no headers are needed. Integers of the interface have
// 32 bits in the file of this name; the one with 64 bits has another name.
constexpr int kRowMajor = 101;
constexpr int kNoTranspose = 111;
template <class T>
using Multiply = void(int order, int transpose_a, int transpose_b, int m, int n, int k, T alpha,
                      const T* a, int a_stride, const T* b, int b_stride, T beta, T* c,
                      int c_stride);

// What openblas_get_parallel() returns.
constexpr int kByThreads = 1;
constexpr int kByOpenMp = 2;

struct OpenBlas {
  LibraryFile file;
  Multiply<float>* sgemm = nullptr;
  Multiply<double>* dgemm = nullptr;
  const char* (*get_config)() = nullptr;
  const char* (*get_corename)() = nullptr;
  int (*get_parallel)() = nullptr;
  int (*get_threads)() = nullptr;
  void (*set_threads)(int count) = nullptr;
  OpenMp open_mp{};
};

Result<OpenBlas> load_openblas() {
  GANTRY_ASSIGN(auto file, LibraryFile::open("libopenblas.so.0", "openblas",
                                             "apt install libopenblas0-pthread"));
  OpenBlas api{.file = std::move(file)};
  GANTRY_TRY(api.file.find("cblas_sgemm", api.sgemm));
  GANTRY_TRY(api.file.find("cblas_dgemm", api.dgemm));
  GANTRY_TRY(api.file.find("openblas_get_config", api.get_config));
  GANTRY_TRY(api.file.find("openblas_get_corename", api.get_corename));
  GANTRY_TRY(api.file.find("openblas_get_parallel", api.get_parallel));
  GANTRY_TRY(api.file.find("openblas_get_num_threads", api.get_threads));
  GANTRY_TRY(api.file.find("openblas_set_num_threads", api.set_threads));
  if (api.get_parallel() == kByOpenMp) {
    GANTRY_ASSIGN(api.open_mp, OpenMp::of(api.file));
  }
  return api;
}

// "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...": the second word.
std::string version_in(std::string_view config) {
  const std::size_t begin = std::min(config.find(' '), config.size());
  std::string_view rest = config.substr(begin);
  rest.remove_prefix(rest.empty() ? 0 : 1);
  return std::string(rest.substr(0, rest.find(' ')));
}

// Its pool begins when the library is loaded, one thread for each further CPU. With one thread a
// product it would never have work. It comes back by itself when a product needs it, as after
// fork(), before which the library ends it in the same way.
void end_pool(const OpenBlas& api) {
  if (auto* const end = api.file.find<int()>("blas_thread_shutdown_")) end();
}

// With OpenMP the number is one of each calling thread, which compute() takes care of.
unsigned hold_to(const OpenBlas& api, unsigned threads) {
  if (api.get_parallel() == kByOpenMp) return threads;
  // Setting it brings back a pool that was ended, whatever the number.
  if (api.get_threads() != static_cast<int>(threads)) api.set_threads(static_cast<int>(threads));
  return static_cast<unsigned>(std::max(api.get_threads(), 1));
}

bool fits(const Gemm& product) noexcept {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  return product.m <= kMost && product.n <= kMost && product.k <= kMost &&
         product.a_stride <= kMost && product.b_stride <= kMost && product.c_stride <= kMost;
}

class OpenBlasGemm final : public CheckedGemm {
 public:
  OpenBlasGemm(const OpenBlas& api, unsigned threads)
      : CheckedGemm(
            {"openblas", version_in(api.get_config()), api.get_corename(), threads, "asked for"}),
        api_(api) {}

 protected:
  bool takes_element(Element element) const noexcept override {
    return element == Element::f64 || element == Element::f32;
  }

  Result<void> compute(const Gemm& product, Element element) override {
    if (!fits(product))
      return fail(Code::unsupported, "gemm: openblas counts rows and columns by 31 bits",
                  "cut the product into pieces, or open the library `builtin`");
    if (api_.get_parallel() != kByOpenMp) {
      call(product, element);
    } else {
      const OpenMpLimit limit(api_.open_mp, facts().threads);
      call(product, element);
    }
    return {};
  }

 private:
  void call(const Gemm& product, Element element) {
    element == Element::f32 ? call_as<float>(api_.sgemm, product)
                            : call_as<double>(api_.dgemm, product);
  }

  template <class T>
  static void call_as(Multiply<T>* multiply, const Gemm& product) {
    const auto narrow = [](std::int64_t size) { return static_cast<int>(size); };
    multiply(kRowMajor, kNoTranspose, kNoTranspose, narrow(product.m), narrow(product.n),
             narrow(product.k), T{1}, reinterpret_cast<const T*>(product.a),
             narrow(product.a_stride), reinterpret_cast<const T*>(product.b),
             narrow(product.b_stride), product.adds ? T{1} : T{0}, reinterpret_cast<T*>(product.c),
             narrow(product.c_stride));
  }

  const OpenBlas& api_;
};

/// The one of this process, as its number of threads is.
struct Opened {
  std::mutex mutex;
  std::optional<OpenBlas> api;  // once loaded it stays, and so does its address
  std::weak_ptr<GemmLibrary> library;
  unsigned threads = 0;
};

// A program that had the library before us keeps its pool, which it may be using.
Result<void> load_once(Opened& opened, unsigned threads) {
  if (opened.api) return {};
  GANTRY_ASSIGN(opened.api, load_openblas());
  const OpenBlas& api = *opened.api;
  hold_to(api, threads);
  if (threads == 1 && api.get_parallel() == kByThreads && api.file.is_ours()) end_pool(api);
  return {};
}

Result<std::shared_ptr<GemmLibrary>> open_one(Opened& opened, unsigned threads) {
  const std::lock_guard lock(opened.mutex);
  if (auto library = opened.library.lock()) {
    if (opened.threads == threads || threads == kAnyThreads) return library;
    return fail(Code::busy,
                fmt::format("gemm: openblas is open with threads = {}, which holds for the process",
                            opened.threads),
                fmt::format("ask for {}, or close what is open", opened.threads));
  }
  threads = std::max(threads, 1u);
  GANTRY_TRY(load_once(opened, threads));
  auto library = std::make_shared<OpenBlasGemm>(*opened.api, hold_to(*opened.api, threads));
  opened.library = library;
  opened.threads = threads;
  return library;
}

}  // namespace

Result<std::shared_ptr<GemmLibrary>> make_openblas_gemm(unsigned threads) {
  static Opened opened;
  return open_one(opened, threads);
}

}  // namespace gantry
