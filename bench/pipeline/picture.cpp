#include "picture.hpp"

#include <charconv>
#include <stdexcept>
#include <string_view>

// The file as it is, so that the program needs neither a decoder nor a file beside it.
asm(R"(
  .pushsection .rodata
  .global gantry_bench_frame
  .global gantry_bench_frame_end
gantry_bench_frame:
  .incbin ")" GANTRY_BENCH_FRAME R"("
gantry_bench_frame_end:
  .byte 0
  .popsection
)");
extern "C" const char gantry_bench_frame[];
extern "C" const char gantry_bench_frame_end[];

namespace gantry::bench {
namespace {

std::size_t number_at(std::string_view& text) {
  text.remove_prefix(text.find_first_of("0123456789"));
  std::size_t number = 0;
  const auto [rest, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc()) throw std::runtime_error("the picture that was built in: no PGM");
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  return number;
}

}  // namespace

Picture frame_of_the_demo() {
  std::string_view file(gantry_bench_frame, gantry_bench_frame_end);
  file.remove_prefix(2);  // "P5"
  Picture picture;
  picture.width = number_at(file);
  picture.height = number_at(file);
  number_at(file);        // the largest value
  file.remove_prefix(1);  // one blank
  picture.pixels = {reinterpret_cast<const std::uint8_t*>(file.data()), file.size()};
  return picture;
}

}  // namespace gantry::bench
