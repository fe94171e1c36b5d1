// What `gantry pack` takes of other programs' files: everything that they themselves read, however
// many tensors there are; and what a file is that it does not take.
#include <sys/resource.h>

#include "pack_support.hpp"

namespace gantry::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// CPU time of the programs that ended so far.
double seconds_of_programs() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::string many_tensors(int count) {
  nlohmann::json header = nlohmann::json::object();
  for (int i = 0; i < count; ++i)
    header["layer." + std::to_string(i)] = {
        {"dtype", "U8"}, {"shape", {1}}, {"data_offsets", {i, i + 1}}};
  return safetensors_file(header.dump(), std::string(static_cast<std::size_t>(count), 'x'));
}

// Eight times the tensors take at most eight times the time, or 64 times that if each looks at all.
TEST_F(Pack, TimeGrowsAsTensorsDo) {
  constexpr int kFew = 3000, kMany = 8 * kFew;
  write("few.safetensors", many_tensors(kFew));
  write("many.safetensors", many_tensors(kMany));
  const auto least_of_two = [&](const std::vector<std::string>& words) {
    double least = 1e9;
    for (int round = 0; round < 2; ++round) {
      const double before = seconds_of_programs();
      expect_done(words);
      least = std::min(least, seconds_of_programs() - before);
    }
    return least;
  };
  const auto expect_in_proportion = [&](const std::vector<std::string>& words,
                                        const std::string& file) {
    std::vector<double> seconds;
    for (const char* amount : {"few", "many"}) {
      std::vector<std::string> all(words);
      all.push_back(amount + std::string(words[0] == "pack" ? ".safetensors" : ".gimg"));
      if (!file.empty()) all.push_back(amount + file);
      seconds.push_back(least_of_two(all));
    }
    EXPECT_LT(seconds[1], 20 * seconds[0]) << words[words.size() - 1];
  };
  expect_in_proportion({"pack"}, ".gimg");
  expect_in_proportion({"image", "ls"}, "");
  expect_in_proportion({"image", "verify"}, "");
  expect_in_proportion({"image", "extract"}, ".back.safetensors");
}

TEST_F(Pack, AnEndingInLargeLettersIsTheSameFormat) {
  write("a.safetensors", safetensors_of({{"w", "F32", {2}, random_bytes(8)}}));
  expect_done({"pack", "a.safetensors", "a.gimg"});
  expect_done({"image", "extract", "a.gimg", "b.npy"});
  fs::rename(path("a.safetensors"), path("A.SAFETENSORS"));
  fs::rename(path("b.npy"), path("w.Npy"));
  for (const char* file : {"A.SAFETENSORS", "w.Npy"}) {
    expect_done({"pack", file, "b.gimg"});
    EXPECT_EQ(read("b.gimg"), read("a.gimg")) << file;
  }
  write("m.GGUF", "x");
  EXPECT_THAT(done({"pack", "m.GGUF", "b.gimg"}).errors, HasSubstr("it is a model in GGUF"));
}

/// A file of NumPy's with this dictionary.
std::string npy_file(const std::string& dictionary, const std::string& data) {
  std::string file("\x93NUMPY\1\0", 8);
  file += static_cast<char>(dictionary.size() + 1);
  file += '\0';
  return file + dictionary + '\n' + data;
}

TEST_F(Pack, WhatWasVerifiedIsSaid) {
  write("a.bin", std::string(9 << 20, 'a'));
  expect_done({"pack", "a.bin", "a.gimg", "--codec", "deflate"});
  const Ended ended = done({"image", "verify", "a.gimg"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.output,
              ::testing::MatchesRegex(
                  "a.gimg: whole: all [0-9.]+ KiB of the file were read: 3 chunks \\([0-9.]+ KiB "
                  "stored, 9 MiB unpacked\\) by their checksums, tables and superblock by theirs, "
                  "zeros between; the content by its digest [0-9a-f]+\n"));
  EXPECT_THAT(done({"image", "ls", "a.gimg"}).output, Not(HasSubstr("whole")));
}

// What is packed is compared with what numpy.load() reads in bindings/python/tests/test_images.py.
TEST_F(Pack, WhatIsWrongWithAFileOfNumpyIsSaid) {
  const auto said = [&](const std::string& dictionary, std::size_t bytes = 24) {
    return said_of("a.npy", npy_file(dictionary, std::string(bytes, 'x')));
  };
  const std::string rest = "'fortran_order': False, 'shape': (3, 2)}";
  const auto type = [&](const std::string& descr) {
    return said("{'descr': " + descr + ", " + rest);
  };
  EXPECT_THAT(type("'>i4'"), HasSubstr("a.npy: its numbers ('>i4') have their highest byte first"));
  EXPECT_THAT(type("'<float32'"), HasSubstr("its type '<float32' is unknown; save it anew as one"));
  for (const char* complex : {"'<c16'", "'>c16'", "'complex128'", "'D'"})
    EXPECT_THAT(type(complex), AllOf(HasSubstr("a.npy: its complex numbers ("),
                                     HasSubstr("; save them as complex64")));
  EXPECT_THAT(type("'<V2'"), HasSubstr("NumPy writes bf16 and fp8 of ml_dtypes so; save it as *."));
  EXPECT_THAT(said("{'descr': '<f4', 'shape': (3, 2), 'fortran_order': True}"),
              HasSubstr("a.npy: its first dimension runs the quickest"));
  for (const std::string& wrong :
       {"{'descr': [('a', '<f4')], " + rest, "{'descr': '<f4', " + rest + " x",
        "{'descr': '<f4', 'more': 1, " + rest, "{'descr': '<f4, " + rest, "{" + rest,
        std::string("{'descr': '<f4', 'fortran_order': 0, 'shape': (6,)}"),
        std::string("{'descr': '<f4', 'fortran_order': False, 'shape': (6)}"),
        std::string("{'descr': '<f4', 'fortran_order': False, 'shape': (-6,)}"),
        std::string("{'descr': '<f4', 'fortran_order': False, 'shape': (3 2)}"),
        std::string("{'descr': '<f4' 'fortran_order': False, 'shape': (6,)}"), std::string("{")})
    EXPECT_THAT(said(wrong), HasSubstr("' does not say one type of numbers, their order and a shape"
                                       "; save an array of numbers without fields"));
  EXPECT_THAT(said("{'descr': 'b', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,24)}"),
              HasSubstr("a.npy: it has 9 dimensions, of at most 8"));
}

TEST_F(Pack, AFileThatWasCutOffIsToldSo) {
  const auto tensors = safetensors_file(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                                        std::string(8, 'x'));
  const auto cut = [](const std::string& file) { return file.substr(0, file.size() - 3); };
  EXPECT_THAT(said_of("a.safetensors", cut(tensors)),
              HasSubstr("a.safetensors: tensor 'w': bytes 0 to 8, of 5: it was cut off; copy"));
  EXPECT_THAT(said_of("a.safetensors", tensors + "more"),
              HasSubstr("; copy or save it again, without what follows its tensors"));
  const std::string hole = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})";
  EXPECT_THAT(said_of("a.safetensors", safetensors_file(hole, std::string(16, 'x'))),
              HasSubstr("; save it again: nothing lies between tensors of safetensors"));
  const auto array =
      npy_file("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", std::string(24, 'x'));
  EXPECT_THAT(said_of("a.npy", cut(array)),
              HasSubstr("[3, 2] of f32 has 24 bytes, the file 21: it was cut off; copy it again"));
  EXPECT_THAT(said_of("a.npy", array.substr(0, 20)),
              HasSubstr("a.npy: its header has 10 bytes of 60: it was cut off; copy it again"));
  EXPECT_THAT(said_of("a.npy", array + "xx"),
              HasSubstr("24 bytes, the file 26; copy or save it again"));
}

TEST_F(Pack, WhatIsNoJsonIsOneClearLine) {
  for (const std::string& text : {std::string("{"), std::string("{\"weight_map\": {]}")}) {
    const std::string said = said_of("model.safetensors.index.json", text);
    EXPECT_THAT(said, HasSubstr("model.safetensors.index.json: it is not JSON from byte "));
    EXPECT_THAT(said, HasSubstr("; it was cut off or damaged: copy it again"));
    EXPECT_THAT(said, Not(HasSubstr("exception")));
  }
}

TEST_F(Pack, AFolderWithoutTensorsIsNamed) {
  std::filesystem::create_directory(path("in"));
  const Ended packed = done({"pack", "in", "in.gimg"});
  EXPECT_EQ(packed.status, 1);
  EXPECT_THAT(packed.errors, IsOneLine());
  EXPECT_THAT(packed.errors, HasSubstr("gantry: in: there are no tensors in it; "));
  std::filesystem::create_directory(path("too"));
  EXPECT_THAT(done({"pack", "in", "too", "in.gimg"}).errors,
              HasSubstr("gantry: in, too: there are no tensors in them; "));
}

TEST_F(Pack, AFileThatIsNotReadIsNamed) {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
  for (const char* name : {"a.safetensors", "a.npy", "a.safetensors.index.json", "a.bin"})
    EXPECT_THAT(said_of(name, pointer),
                HasSubstr(std::string(name) + ": it is a pointer of git-lfs,"
                                              " not the file that it stands for; fetch that"));
  const auto zip = [](const std::string& name) {
    std::string start("PK\3\4", 4);
    start.resize(26, '\0');
    return start + static_cast<char>(name.size()) + std::string(3, '\0') + name;
  };
  EXPECT_THAT(said_of("a.npz", zip("weights.npy")), HasSubstr("a.npz: it is an archive of arrays of"
                                                              " NumPy (*.npz), whose tensors are"));
  EXPECT_THAT(said_of("a.pt", "\x80\2"), HasSubstr("a.pt: it is a checkpoint of PyTorch, whose "));
  EXPECT_THAT(said_of("a.bin", zip("archive/data.pkl")), HasSubstr("save_file(torch.load("));
  EXPECT_THAT(said_of("model", "GGUF\3"), HasSubstr("model: it is a model in GGUF, whose tensors"));
  std::filesystem::create_directory(path("in"));
  write("in/model.gguf", "GGUF");
  const Ended packed = done({"pack", "in", "in.gimg"});
  EXPECT_EQ(packed.status, 0);
  EXPECT_THAT(packed.errors,
              HasSubstr("in/model.gguf: it is a model in GGUF, whose tensors are not "
                        "read; packed as bytes;"));
  expect_done({"pack", "a.pt", "as_bytes.gimg", "--tensor", "pt=u8[2]"});
}

}  // namespace
}  // namespace gantry::test
