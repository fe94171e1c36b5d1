#include "device/cuda/compiler.hpp"

#include <algorithm>
#include <sstream>

#include "base/result.hpp"
#include "device/cuda/symbols.hpp"

namespace gantry::cuda {
namespace {

using Handle = struct ProgramObject*;
using Answer = int;
constexpr Answer kDone = 0;
constexpr Answer kCompilationFailed = 6;

// clang-format off
#define GANTRY_NVRTC_FUNCTIONS(X) \
  X(version, "nvrtcVersion", (int* major, int* minor)) \
  X(create, "nvrtcCreateProgram", (Handle* program, const char* source, const char* name, int headers, const char* const* texts, const char* const* names)) \
  X(destroy, "nvrtcDestroyProgram", (Handle* program)) \
  X(compile, "nvrtcCompileProgram", (Handle program, int count, const char* const* options)) \
  X(log_size, "nvrtcGetProgramLogSize", (Handle program, std::size_t* bytes)) \
  X(log, "nvrtcGetProgramLog", (Handle program, char* text)) \
  X(ptx_size, "nvrtcGetPTXSize", (Handle program, std::size_t* bytes)) \
  X(ptx, "nvrtcGetPTX", (Handle program, char* text)) \
  X(cubin_size, "nvrtcGetCUBINSize", (Handle program, std::size_t* bytes)) \
  X(cubin, "nvrtcGetCUBIN", (Handle program, char* code)) \
  X(targets, "nvrtcGetNumSupportedArchs", (int* count)) \
  X(target_list, "nvrtcGetSupportedArchs", (int* capabilities))
// clang-format on

struct Nvrtc {
#define GANTRY_NVRTC_MEMBER(member, symbol, parameters) Answer(*member) parameters = nullptr;
  GANTRY_NVRTC_FUNCTIONS(GANTRY_NVRTC_MEMBER)
#undef GANTRY_NVRTC_MEMBER
  const char* (*error_string)(Answer answer) = nullptr;
};

std::optional<Nvrtc> load_nvrtc(const char* path) {
  void* const library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  Nvrtc nvrtc;
#define GANTRY_NVRTC_FIND(member, symbol, parameters) \
  if (!find(library, symbol, nvrtc.member)) return std::nullopt;
  GANTRY_NVRTC_FUNCTIONS(GANTRY_NVRTC_FIND)
#undef GANTRY_NVRTC_FIND
  if (!find(library, "nvrtcGetErrorString", nvrtc.error_string)) return std::nullopt;
  return nvrtc;
}

/// Compiles code for the device itself if the compiler knows it: it loads at once, and by drivers
/// older than the compiler, too. Otherwise uses the newest language that the device understands.
struct Target {
  int capability = 0;
  bool is_exact = true;
};

Target target_for(const Nvrtc& nvrtc, int capability) {
  int count = 0;
  if (nvrtc.targets(&count) != kDone || count <= 0) return {capability, true};
  std::vector<int> known(static_cast<std::size_t>(count));
  if (nvrtc.target_list(known.data()) != kDone) return {capability, true};
  std::erase_if(known, [&](int one) { return one > capability; });
  if (known.empty()) return {capability, true};  // too old a device: the compiler says so
  const int best = std::ranges::max(known);
  return {best, best == capability};
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(std::move(word));
  return words;
}

class Compilation {
 public:
  explicit Compilation(const Nvrtc& nvrtc) noexcept : nvrtc_(nvrtc) {}
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;
  ~Compilation() {
    if (program_ != nullptr) nvrtc_.destroy(&program_);
  }

  Answer run(const ProgramSource& source, Target target) {
    std::vector<std::string> words = words_of(source.cuda.options);
    words.push_back(fmt::format("--gpu-architecture={}_{}", target.is_exact ? "sm" : "compute",
                                target.capability));
    std::vector<const char*> options;
    for (const std::string& word : words) options.push_back(word.c_str());
    const Answer made = nvrtc_.create(&program_, source.cuda.source.c_str(), source.name.c_str(), 0,
                                      nullptr, nullptr);
    if (made != kDone) return made;
    return nvrtc_.compile(program_, static_cast<int>(options.size()), options.data());
  }
  [[nodiscard]] std::string log() const {
    std::string text = get(nvrtc_.log_size, nvrtc_.log);
    while (!text.empty() && (text.back() == '\0' || text.back() == '\n')) text.pop_back();
    return text;
  }
  /// Empty: there is none.
  [[nodiscard]] std::string image(bool is_exact) const {
    return is_exact ? get(nvrtc_.cubin_size, nvrtc_.cubin) : get(nvrtc_.ptx_size, nvrtc_.ptx);
  }

 private:
  [[nodiscard]] std::string get(Answer (*size)(Handle, std::size_t*),
                                Answer (*text)(Handle, char*)) const {
    std::size_t bytes = 0;
    if (program_ == nullptr || size(program_, &bytes) != kDone) return {};
    std::string answer(bytes, '\0');
    return text(program_, answer.data()) == kDone ? answer : std::string();
  }

  const Nvrtc& nvrtc_;
  Handle program_ = nullptr;
};

}  // namespace

Result<Compiled> compile(const char* library, std::string_view device, const ProgramSource& source,
                         int capability) {
  const auto nvrtc = load_first(library, kCompilers, load_nvrtc);
  if (!nvrtc)
    return fail(Code::unsupported,
                fmt::format("{}: program '{}': no compiler: {} cannot be opened", device,
                            source.name, library != nullptr ? library : "libnvrtc.so"),
                "install CUDA's NVRTC (apt install libnvrtc12, pip install nvidia-cuda-nvrtc) "
                "and name its folder in LD_LIBRARY_PATH, or hand over ProgramSource::cuda_image");
  const Target target = target_for(*nvrtc, capability);
  Compilation compilation(*nvrtc);
  const Answer answer = compilation.run(source, target);
  std::string log = compilation.log();
  const std::string image = answer == kDone ? compilation.image(target.is_exact) : std::string();
  if (answer == kDone && !image.empty()) {
    const auto bytes = std::as_bytes(std::span(image));
    return Compiled{{bytes.begin(), bytes.end()}, std::move(log)};
  }
  if (log.empty() || answer != kCompilationFailed)
    log = fmt::format("{} ({}){}{}", nvrtc->error_string(answer), answer, log.empty() ? "" : "\n",
                      log);
  return fail(Code::build_failed,
              fmt::format("{}: program '{}' does not compile (options '{}'):\n{}", device,
                          source.name, source.cuda.options, log),
              "the number behind the program's name is the line of the source");
}

std::optional<std::string> compiler_version(const char* library) {
  int major = 0;
  int minor = 0;
  const auto nvrtc = load_first(library, kCompilers, load_nvrtc);
  if (!nvrtc || nvrtc->version(&major, &minor) != kDone) return std::nullopt;
  return fmt::format("NVRTC {}.{}", major, minor);
}

}  // namespace gantry::cuda
