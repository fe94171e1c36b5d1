#include "look/bindings.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <gantry/runtime.hpp>
#include <string>
#include <string_view>

namespace gantry::cli {
namespace {

constexpr auto kLibrary = "libgantry_c.so.0";

// After kAnswer it prints the package's version, and what there is beside it; or why it has none.
// Nothing in the current folder is imported. Large packages are asked for their version, not
// loaded.
constexpr std::string_view kAnswer = "gantry binding\n";
constexpr auto kQuestion = R"sh(command -v python3 >/dev/null || exit 127
exec timeout -k 1 10 python3 -c '
import sys
sys.path = [folder for folder in sys.path if folder]
def why(error):
    return f"{type(error).__name__}: {error}".split("\n")[0]
try:
    import gantry, platform
    from importlib import metadata
    words = "python3 " + platform.python_version()
    try:
        import numpy
        words += ", numpy " + numpy.__version__
    except ModuleNotFoundError:
        words += ", no numpy: arrays need python3-numpy"
    except BaseException as error:
        words += f", numpy does not work ({why(error)}): arrays need it"
    for name in ("torch", "pyarrow"):
        try:
            words += ", " + name + " " + metadata.version(name)
        except Exception: pass
    print("\ngantry binding", gantry.__version__, words, sep="\n")
except BaseException as error:
    print("\ngantry binding", "", why(error), sep="\n")
' 2>/dev/null </dev/null)sh";
constexpr int kNoTime = 124;  // what timeout ends with, or, behind SIGKILL:
constexpr int kKilled = 137;
constexpr int kCannotRun = 126;
constexpr int kNoProgram = 127;
constexpr auto kAskYourself = "look at what this says: python3 -c 'import gantry'";

struct PythonAnswer {
  std::string text;
  int status = kNoProgram;
};

PythonAnswer ask_python() {
  PythonAnswer answer;
  std::FILE* const pipe = ::popen(kQuestion, "re");
  if (pipe == nullptr) return answer;
  std::array<char, 512> part{};
  while (const std::size_t count = std::fread(part.data(), 1, part.size(), pipe))
    answer.text.append(part.data(), count);
  const int ended = ::pclose(pipe);
  answer.status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
  return answer;
}

EngineStatus of_version(std::string name, std::string_view found, std::string beside) {
  if (found == version()) return {std::move(name), true, std::move(beside), ""};
  return {std::move(name), false, fmt::format("it is {}, this program is {}", found, version()),
          "install both of one version"};
}

EngineStatus no_answer(int status) {
  if (status == kNoProgram || status == kCannotRun)
    return {"python", false, "python3 does not run", "apt-get install python3"};
  if (status == kNoTime || status == kKilled)
    return {"python", false, "python3 does not import gantry within 10 s", kAskYourself};
  return {"python", false,
          fmt::format("python3 ends with {} and does not say what gantry is to it", status),
          kAskYourself};
}

EngineStatus probe_python() {
  const auto [text, status] = ask_python();
  const std::size_t at = text.rfind(kAnswer);
  if (at == std::string::npos) return no_answer(status);
  const std::string_view answer = std::string_view(text).substr(at + kAnswer.size());
  const std::size_t line = answer.find('\n');
  const std::size_t end = line == std::string_view::npos ? line : answer.find('\n', line + 1);
  if (end == std::string_view::npos) return no_answer(status);
  std::string beside(answer.substr(line + 1, end - line - 1));
  if (line == 0)
    return {"python", false, std::move(beside),
            "install python3-gantry, or a wheel: docs/mechanisms/python.md"};
  return of_version("python", answer.substr(0, line), std::move(beside));
}

EngineStatus probe_c() {
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return {"c", false, fmt::format("{} cannot be loaded", kLibrary), "install the library for C"};
  using Version = const char*();
  auto* const found = reinterpret_cast<Version*>(::dlsym(library, "gantry_version"));
  EngineStatus status = of_version("c", found == nullptr ? "unknown" : found(), kLibrary);
  ::dlclose(library);
  return status;
}

}  // namespace

std::vector<EngineStatus> probe_bindings() {
  return {probe_c(), probe_python()};
}

}  // namespace gantry::cli
