// nvrtc_stub.cpp: a compiler for the stub's modules. Its source is CUDA C++, whose comments say
// what a real compiler would have to say:
//   x[1] = y;  // stub: error identifier "y" is undefined
//   x[0] = N;  // stub: needs N

#include <cstring>
#include <sstream>
#include <string>

namespace {

constexpr int kDone = 0, kCompilationFailed = 6;

struct Program {
  std::string name, source, log, image, target;

  void say(int line, const std::string& what) {
    log += name + "(" + std::to_string(line) + "): " + what + "\n\n";
  }
};

std::string after(const std::string& line, const std::string& mark) {
  const auto at = line.find(mark);
  return at == line.npos ? std::string() : line.substr(at + mark.size());
}

bool check(Program& program, const std::string& options) {
  std::istringstream lines(program.source);
  std::string line;
  bool is_right = true;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string warning = after(line, "// stub: warning ");
    std::string error = after(line, "// stub: error ");
    const std::string needs = after(line, "// stub: needs ");
    if (!needs.empty() && options.find("-D" + needs + "=") == options.npos)
      error = "identifier \"" + needs + "\" is undefined";
    if (!warning.empty()) program.say(number, "warning: " + warning);
    if (!error.empty()) program.say(number, "error: " + error);
    is_right = is_right && error.empty();
  }
  return is_right;
}

}  // namespace

extern "C" {

const char* nvrtcGetErrorString(int answer) {
  return answer == kDone ? "NVRTC_SUCCESS" : "NVRTC_ERROR_OF_THE_STUB";
}
int nvrtcVersion(int* major, int* minor) {
  *major = 12;
  *minor = 8;
  return kDone;
}
int nvrtcGetNumSupportedArchs(int* count) {
  *count = 3;
  return kDone;
}
int nvrtcGetSupportedArchs(int* known) {
  known[0] = 52;
  known[1] = 80;
  known[2] = 90;
  return kDone;
}
int nvrtcCreateProgram(Program** program, const char* source, const char* name, int,
                       const char* const*, const char* const*) {
  *program = new Program{name, source, {}, {}, {}};
  return kDone;
}
int nvrtcDestroyProgram(Program** program) {
  delete *program;
  *program = nullptr;
  return kDone;
}
int nvrtcCompileProgram(Program* program, int count, const char* const* options) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    const std::string option = options[i];
    all += option + "\n";
    if (option.find("-arch") != option.npos) program->target = option.substr(option.find('=') + 1);
  }
  if (!check(*program, all)) return kCompilationFailed;
  program->image = " for " + program->target + "\n" + all + program->source;
  return kDone;
}
int nvrtcGetProgramLogSize(Program* program, std::size_t* bytes) {
  *bytes = program->log.size() + 1;
  return kDone;
}
int nvrtcGetProgramLog(Program* program, char* text) {
  std::strcpy(text, program->log.c_str());
  return kDone;
}
int nvrtcGetPTXSize(Program* program, std::size_t* bytes) {
  *bytes = program->image.size() + sizeof "stub ptx";
  return kDone;
}
int nvrtcGetPTX(Program* program, char* text) {
  std::strcpy(text, ("stub ptx" + program->image).c_str());
  return kDone;
}
int nvrtcGetCUBINSize(Program* program, std::size_t* bytes) {
  *bytes = program->target.starts_with("sm_") ? program->image.size() + sizeof "stub cubin" : 0;
  return kDone;
}
int nvrtcGetCUBIN(Program* program, char* code) {
  std::strcpy(code, ("stub cubin" + program->image).c_str());
  return kDone;
}

}  // extern "C"
