// A reader for keep_test.cpp: read_image NAME [hold]. Attaches the image, as a stage or not, and
// writes the bytes of its tensors to standard output, or in a stage to NAME.bytes in the folder
// $OUT; with `hold` once more when standard input has ended.
#include <cstdio>
#include <cstdlib>
#include <gantry/image.hpp>
#include <string>

namespace {

using namespace gantry;

int write_all(const AttachedImage& image, std::FILE* to) {
  for (const ImageTensor& one : image.tensors()) {
    const auto tensor = image.tensor(one.name);
    if (!tensor) return 1;
    std::fwrite(tensor->bytes.data(), 1, tensor->bytes.size(), to);
  }
  return std::fflush(to) == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const char* const out = std::getenv("OUT");
  const auto image = out != nullptr
                         ? stage_image(argv[1])
                         : attach_image(argv[1], {}, Deadline::after(std::chrono::minutes(1)));
  if (!image) {
    std::fprintf(stderr, "gantry: %s\n", to_string(image.error()).c_str());
    return 1;
  }
  std::FILE* const to =
      out == nullptr ? stdout
                     : std::fopen((std::string(out) + "/" + argv[1] + ".bytes").c_str(), "w");
  if (const int failed = write_all(*image, to); failed != 0 || argc < 3) return failed;
  std::fputs("attached\n", stderr);
  while (std::getchar() != EOF) {
  }
  return write_all(*image, to);
}
