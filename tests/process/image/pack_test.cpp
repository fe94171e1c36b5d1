// `gantry pack` and `gantry image`: what goes in comes out, byte for byte, and bad input is an
// error of one line.
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "pack_support.hpp"

namespace gantry::test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

std::vector<Entry> every_type() {
  const std::pair<const char*, std::size_t> types[] = {
      {"BOOL", 8},        {"U8", 8},         {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8},
      {"F8_E8M0", 8},     {"U16", 16},       {"I16", 16}, {"F16", 16},    {"BF16", 16},
      {"U32", 32},        {"I32", 32},       {"F32", 32}, {"C64", 64},    {"F64", 64},
      {"U64", 64},        {"I64", 64},       {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6},
      {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}};
  std::vector<Entry> entries;
  for (const auto& [name, bits] : types)
    entries.push_back({std::string("of.") + name, name, {6, 4}, random_bytes(24 * bits / 8)});
  entries.push_back({"scalar", "F32", {}, random_bytes(4)});
  entries.push_back({"none", "F32", {3, 0}, ""});
  std::string numbers(6 << 20, '\1');  // packs well, in more than one chunk
  for (std::size_t i = 0; i < numbers.size(); i += 2) numbers[i] = static_cast<char>(i * 7 / 3);
  entries.push_back({"large", "BF16", {3 << 20}, numbers});
  return entries;
}

TEST_F(Pack, SafetensorsComeBackByEveryCodec) {
  const std::string model = safetensors_of(every_type());
  write("a.safetensors", model);
  for (const char* codec : {"none", "lz4", "zstd", "zstd:9", "deflate", "smallest", "auto"})
    for (const bool planes : {false, true}) {
      std::vector<std::string> words{"pack", "a.safetensors", "a.gimg", "--codec", codec};
      if (planes) words.emplace_back("--planes");
      if (done(words).errors.find("built without") != std::string::npos) continue;
      expect_done({"image", "verify", "a.gimg"});
      expect_done({"image", "extract", "a.gimg", "back.safetensors"});
      EXPECT_EQ(read("back.safetensors"), model) << codec << planes;
    }
}

TEST_F(Pack, AutoTriesBothWaysAndSaysWhatCameOfIt) {
  const std::string bytes = std::string(20 << 20, 'x') + random_bytes(20 << 20);
  write("a.bin", bytes);
  const Ended ended = done({"pack", "a.bin", "a.gimg", "--codec", "auto"});
  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_THAT(ended.errors, ContainsRegex("gantry: auto: (packed|as it is): its first 40 MiB load "
                                          "in [0-9.]+ s packed, [0-9.]+ s as they are, here\n"));
  const bool is_packed = ended.errors.find("auto: packed") != std::string::npos;
  EXPECT_EQ(fs::file_size(path("a.gimg")) < bytes.size(), is_packed);
  EXPECT_THAT(files_.entries(), ElementsAre("a.bin", "a.gimg"));
  expect_done({"image", "extract", "a.gimg", "back"});
  EXPECT_TRUE(read("back/a.bin") == bytes);
  expect_done({"pack", "a.bin", std::string(250, 'n') + ".gimg", "--codec", "auto"});
  write("small.bin", random_bytes(1 << 20));
  EXPECT_THAT(done({"pack", "small.bin", "small.gimg", "--codec", "auto"}).errors,
              HasSubstr("auto: as it is: 1 MiB are loaded at once either way\n"));
}

TEST_F(Pack, FilesOfNumpyComeBack) {
  const std::string dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), }";
  std::string header("\x93NUMPY\1\0", 8);
  header += '\x76';
  header += '\0';
  const std::string file = header + dictionary + std::string(0x76 - dictionary.size() - 1, ' ') +
                           "\n" + random_bytes(60);
  write("a.npy", file);
  expect_done({"pack", "a.npy", "a.gimg"});
  const auto tensor = listed("a.gimg")["tensors"][0];
  EXPECT_EQ(tensor["name"], "a");
  EXPECT_EQ(tensor["type"], "f32");
  EXPECT_EQ(tensor["shape"], nlohmann::json({3, 5}));
  expect_done({"image", "extract", "a.gimg", "back.npy"});
  EXPECT_EQ(read("back.npy"), file);
  std::string other = file;
  other.replace(other.find("False"), 5, "True ");
  EXPECT_THAT(said_of("b.npy", other), HasSubstr("b.npy: its first dimension runs the quickest"));
  other = file;
  other.replace(other.find("<f4"), 3, ">f4");
  EXPECT_THAT(said_of("b.npy", other),
              HasSubstr("b.npy: its numbers ('>f4') have their highest byte "
                        "first; save it anew: numpy.save(FILE, a.astype("));
  other.replace(other.find(">f4"), 3, "<U4");
  EXPECT_THAT(said_of("b.npy", other),
              HasSubstr("b.npy: its type '<U4' is unknown; save it anew as one of b1 u1 i1 u2"));
  EXPECT_THAT(said_of("b.npy", file + "x"), HasSubstr("[3, 5] of f32 has 60 bytes, the file 61"));
  for (const std::size_t size : {0, 5, 11, 40, 130})
    EXPECT_THAT(said_of("b.npy", file.substr(0, size)), HasSubstr("b.npy: ")) << size;
}

TEST_F(Pack, BytesThatSayNothingAreWhatIsSaidOfThem) {
  const std::string bytes = random_bytes(24 + 10);
  write("w.bin", bytes);
  expect_done({"pack", "w.bin", "w.gimg", "--tensor", "q=f32[2,3]", "--tensor", "k=u8[10]"});
  const auto tensors = listed("w.gimg")["tensors"];
  EXPECT_EQ(tensors[0]["type"], "f32");
  EXPECT_EQ(tensors[1]["shape"], nlohmann::json({10}));
  expect_done({"image", "extract", "w.gimg", "out"});
  EXPECT_EQ(read("out/q") + read("out/k"), bytes);
  EXPECT_THAT(said_of("w.bin", bytes, {"--tensor", "q=f32[2,3]"}),
              HasSubstr("w.bin: 10 bytes follow the tensors that --tensor names"));
  EXPECT_THAT(said_of("w.bin", bytes, {"--tensor", "q=f32[2,30]"}),
              HasSubstr("w.bin: --tensor q has 240 bytes; 34 are left"));
  EXPECT_THAT(said_of("w.bin", bytes, {"--tensor", "q=u8[34]", "--tensor", "k=u8[1]"}),
              HasSubstr("--tensor k: there are no bytes left for it"));
  for (const char* wrong : {"q", "q=f32", "q=f32[2,]", "q=f32[-1]", "q=f99[2]", "q=f32[2"})
    EXPECT_EQ(done({"pack", "w.bin", "o.gimg", "--tensor", wrong}).status, 2) << wrong;
}

TEST_F(Pack, AFolderComesBack) {
  fs::create_directory(path("in"));
  write("in/config.json", "{}");
  write("in/tokens", random_bytes(1000));
  write("in/.hidden", "x");
  write("in/empty", "");
  write("in/tokens.partial-12", "half");
  write("in/tokens.partial-12-3", "half");
  write("in/x.partial-12y", "x"), write("in/x.partial-", "x"), write("in/x.partial-1-", "x");
  const Ended packed = done({"pack", "in", "in.gimg", "--codec", "auto"});
  EXPECT_EQ(packed.status, 0);
  for (const char* name : {"12", "12-3"})
    EXPECT_THAT(packed.errors, HasSubstr(std::string("gantry: in/tokens.partial-") + name +
                                         ": left out: by its name it was not finished\n"));
  expect_done({"image", "extract", "in.gimg", "out"});
  const std::set<std::string> all{"config.json",   "tokens",     "empty",
                                  "x.partial-12y", "x.partial-", "x.partial-1-"};
  for (const std::string& name : all) EXPECT_EQ(read("out/" + name), read("in/" + name));
  for (const auto& entry : fs::directory_iterator(path("out")))
    EXPECT_TRUE(all.contains(entry.path().filename())) << entry.path();
  fs::create_directory(path("in/deep"));
  EXPECT_THAT(done({"pack", "in", "x.gimg"}).errors, HasSubstr("a folder in a folder"));
}

TEST_F(Pack, SeveralFilesAndTheirIndex) {
  const Entry a{"a", "F32", {2}, random_bytes(8)}, b{"b", "F32", {3}, random_bytes(12)};
  fs::create_directory(path("in"));
  write("in/1.safetensors", safetensors_of({a}));
  write("in/2.safetensors", safetensors_of({b}));
  const std::string index = "in/model.safetensors.index.json";
  const auto with = [&](const char* map) {
    write(index, std::string(R"({"metadata": {}, "weight_map": )") + map + "}");
    const Ended ended = done({"pack", index, "m.gimg"});
    return ended.status == 0 ? "packed" : ended.errors;
  };
  EXPECT_EQ(with(R"({"b": "2.safetensors", "a": "1.safetensors"})"), "packed");
  expect_done({"image", "extract", "m.gimg", "back.safetensors"});
  EXPECT_EQ(read("back.safetensors"), safetensors_of({a, b}));
  const std::string packed = read("m.gimg");
  for (const std::vector<std::string>& inputs :
       {std::vector<std::string>{"in"}, {"in/1.safetensors", "in/2.safetensors"}}) {
    fs::rename(path(index), path("kept"));
    if (inputs.size() == 1) fs::rename(path("kept"), path(index));
    std::vector<std::string> words{"pack"};
    words.insert(words.end(), inputs.begin(), inputs.end());
    words.emplace_back("m.gimg");
    expect_done(words);
    EXPECT_EQ(read("m.gimg"), packed);
  }
  EXPECT_THAT(with(R"({"a": "1.safetensors"})"), "packed");  // what it does not name
  write("in/.hidden", "x");
  const Ended folder = done({"pack", "in", "m.gimg"});
  EXPECT_EQ(folder.status, 0);
  EXPECT_THAT(folder.errors, HasSubstr("in/2.safetensors: left out: the index does not name it"));
  EXPECT_THAT(folder.errors, HasSubstr("in/.hidden: left out: a hidden file"));
  EXPECT_THAT(folder.errors, testing::Not(HasSubstr("1.safetensors")));
  fs::copy(path("in/1.safetensors"), path("in/.m-1.safetensors"));
  EXPECT_THAT(with(R"({"a": ".m-1.safetensors"})"), "packed");
  const Ended hidden = done({"pack", "in", "h.gimg"});
  EXPECT_EQ(read("h.gimg"), read("m.gimg"));
  EXPECT_THAT(hidden.errors, testing::Not(HasSubstr(".m-1.safetensors")));
  EXPECT_THAT(hidden.errors, HasSubstr("in/1.safetensors: left out: the index does not name it"));
  EXPECT_THAT(with(R"({"a": "1.safetensors", "c": "2.safetensors"})"),
              HasSubstr("tensor 'b': it is in 2.safetensors, and not in the index"));
  EXPECT_THAT(with(R"({"a": "1.safetensors", "c": "1.safetensors"})"),
              HasSubstr("tensor 'c': it is not in 1.safetensors; index and files are not of one"));
  EXPECT_THAT(with(R"({"a": "../1.safetensors"})"), HasSubstr("in no file of this folder"));
  EXPECT_THAT(with(R"({"a": "3.safetensors"})"),
              HasSubstr("index.json: it names 3.safetensors, which is not there; index and "));
  EXPECT_THAT(with("7"), HasSubstr("it has no weight_map"));
}

TEST_F(Pack, NumbersBecomeAnotherType) {
  const float numbers[] = {1.0f, -2.5f, 1e30f};
  const std::string bytes(reinterpret_cast<const char*>(numbers), sizeof numbers);
  write("a.safetensors", safetensors_of({{"w", "F32", {3}, bytes},
                                         {"scalar", "F32", {}, bytes.substr(0, 4)},
                                         {"none", "F32", {0}, ""},
                                         {"ids", "I32", {1}, std::string("\1\2\3\4", 4)}}));
  expect_done({"pack", "a.safetensors", "a.gimg", "--as", "bf16"});
  expect_done({"image", "extract", "a.gimg", "out"});
  EXPECT_EQ(read("out/w"), std::string("\x80\x3f\x20\xc0\x4a\x71", 6));
  EXPECT_EQ(read("out/scalar"), "\x80\x3f");
  EXPECT_EQ(read("out/ids"), std::string("\1\2\3\4", 4));
  EXPECT_EQ(listed("a.gimg")["tensors"][2]["type"], "bf16");
  EXPECT_EQ(done({"pack", "a.safetensors", "a.gimg", "--as", "i8"}).status, 2);
}

TEST_F(Pack, SplitGivesEachPartitionItsShare) {
  std::vector<Entry> entries;
  for (int i = 0; i < 9; ++i)
    entries.push_back({"t" + std::to_string(i), "U8", {1000}, random_bytes(1000)});
  write("a.safetensors", safetensors_of(entries));
  expect_done({"pack", "a.safetensors", "a.gimg", "--split", "3"});
  const auto tensors = listed("a.gimg")["tensors"];
  for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(tensors[i]["partition"], i / 3);
  entries[0] = {"t0", "U8", {90'000}, random_bytes(90'000)};  // more than all the others
  write("a.safetensors", safetensors_of(entries));
  expect_done({"pack", "a.safetensors", "a.gimg", "--split", "9"});
  EXPECT_EQ(listed("a.gimg")["partitions"].size(), 9u);
  EXPECT_THAT(done({"pack", "a.safetensors", "a.gimg", "--split", "10"}).errors,
              HasSubstr("--split 10: there are only 9 tensors"));
}

// ---- bad input ---------------------------------------------------------------------------------

TEST_F(Pack, SafetensorsThatAreNone) {
  const auto said = [&](const std::string& bytes) { return said_of("a.safetensors", bytes); };
  const auto header = [&](const std::string& text) {
    return said(safetensors_file(text, std::string(16, 'x')));
  };
  EXPECT_THAT(said(""), HasSubstr("a.safetensors: 0 bytes are no safetensors, which begin with 8 "
                                  "bytes; it is no safetensors file, or was cut off"));
  EXPECT_THAT(said(std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8)),
              HasSubstr("a header of 18446744073709551615 bytes is longer than the file"));
  EXPECT_THAT(header("{"), HasSubstr("a.safetensors: it is not JSON from byte 2 on; "));
  EXPECT_THAT(header("[]"), HasSubstr("its header is no JSON object"));
  EXPECT_THAT(header(R"({"w": 7})"), HasSubstr("a.safetensors: tensor 'w': it is no JSON object"));
  const auto entry = [&](const std::string& fields) { return header("{\"w\": {" + fields + "}}"); };
  EXPECT_THAT(entry(R"("dtype":"F7","shape":[4],"data_offsets":[0,16])"),
              HasSubstr("tensor 'w': its type 'F7' is unknown; save it as one of BOOL U8 I8"));
  EXPECT_THAT(entry(R"("shape":[4],"data_offsets":[0,16])"), HasSubstr("its type '' is unknown"));
  EXPECT_THAT(entry(R"("dtype":"F32","data_offsets":[0,16])"), HasSubstr("it has no shape"));
  for (const char* number : {"-4", "4.5", "\"4\"", "18446744073709551615"})
    EXPECT_THAT(
        entry(std::string(R"("dtype":"F32","data_offsets":[0,16],"shape":[)") + number + "]"),
        HasSubstr("is no number of elements"));
  EXPECT_THAT(entry(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,4],"data_offsets":[0,16])"),
              HasSubstr("9 dimensions are more than 8"));
  EXPECT_THAT(entry(R"("dtype":"F32","shape":[5],"data_offsets":[0,16])"),
              HasSubstr("[5] of F32 has 20 bytes, not 16"));
  EXPECT_THAT(entry(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,16])"),
              HasSubstr("more numbers than can be counted"));
  EXPECT_THAT(entry(R"("dtype":"F32","shape":[4],"data_offsets":[8,24])"),
              HasSubstr("bytes 8 to 24, of 16"));
  EXPECT_THAT(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"),
              HasSubstr("its tensors end at"));
  EXPECT_THAT(entry(R"("dtype":"F32","shape":[2],"data_offsets":[8,16])"),
              HasSubstr("what is before it ends at"));
  EXPECT_THAT(entry(R"("dtype":"F32","shape":[4])"), HasSubstr("it has no data_offsets"));
  const std::string half = R"({"dtype":"F32","shape":[3],"data_offsets":[0,12]})";
  const std::string other = R"({"dtype":"F32","shape":[3],"data_offsets":[4,16]})";
  EXPECT_THAT(header(R"({"v": )" + half + R"(, "w": )" + other + "}"),
              AllOf(HasSubstr("tensor 'w': it begins at "), HasSubstr("what is before it ends")));
  EXPECT_THAT(header(R"({"w": )" + half + R"(, "w": )" + half + "}"),
              HasSubstr("tensor 'w' is there twice"));
}

TEST_F(Pack, NamesThatNoTensorMayHave) {
  const auto named = [&](const std::string& name) {
    return said_of("a.safetensors", safetensors_of({{name, "U8", {1}, "x"}}));
  };
  EXPECT_THAT(named(""), HasSubstr("tensor '': its name '' has 0 bytes"));
  EXPECT_THAT(named(std::string(10'000, 'n')), HasSubstr("has 10000 bytes, of 1 to 255"));
  EXPECT_THAT(named("a/b"), HasSubstr("gantry: a.safetensors: tensor 'a/b': 'a/b' is no name of "));
  write("b.safetensors", safetensors_of({{"w", "U8", {1}, "x"}}));
  write("a.safetensors", safetensors_of({{"w", "U8", {1}, "x"}}));
  EXPECT_THAT(done({"pack", "a.safetensors", "b.safetensors", "o.gimg"}).errors,
              HasSubstr("tensor 'w' is in a.safetensors and in b.safetensors; names of"));
}

TEST_F(Pack, WordsThatAreWrong) {
  write("a.bin", "x");
  for (const char* codec : {"lzma", "zstd:x", "zstd:0", "zstd:99", "deflate:9", "none:3", ""})
    EXPECT_EQ(done({"pack", "a.bin", "o.gimg", "--codec", codec}).status, 2) << codec;
  EXPECT_EQ(done({"pack", "a.bin"}).status, 2);
  EXPECT_EQ(done({"pack", "a.bin", "o.gimg", "--split", "0"}).status, 2);
  EXPECT_THAT(done({"pack", "missing", "o.gimg"}).errors, HasSubstr("missing: No such file"));
  EXPECT_THAT(done({"image", "ls", "a.bin"}).errors,
              HasSubstr("a.bin: it is no image: it has 1 bytes, an image 4096 at least"));
  expect_done({"pack", "a.bin", "o.gimg"});
  EXPECT_THAT(done({"image", "extract", "o.gimg", "out", "--tensor", "b"}).errors,
              HasSubstr("o.gimg: there is no tensor 'b'; gantry image ls lists them"));
}

TEST_F(Pack, WhatIsWrongInAWordIsSaidOfThatWord) {
  write("a.bin", std::string(8, 'x'));
  fs::create_directory(path("sub"));
  fs::copy_file(path("a.bin"), path("sub/a.bin"));
  const auto expect_said = [&](const std::vector<std::string>& words, const std::string& text) {
    std::vector<std::string> all{"pack", "a.bin"};
    all.insert(all.end(), words.begin(), words.end());
    const Ended ended = done(all);
    EXPECT_NE(ended.status, 0) << text;
    EXPECT_THAT(ended.errors, AllOf(IsOneLine(), HasSubstr(text)));
  };
  constexpr const char* kWanted = "; NAME=TYPE[SHAPE] is wanted, as weights=f32[2,3]";
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"f32[2]", "'f32[2]': it has no name"},
           {"q=f32", "'q=f32': it has no shape"},
           {"q=f32(2)", "'q=f32(2)': it has no shape"},
           {"q=f32[2,a]", "'q=f32[2,a]': 'a' is no number of elements"},
           {"q=f32[-1]", "'q=f32[-1]': '-1' is no number of elements"},
           {"q=f32[2,]", "'q=f32[2,]': its shape ends in a comma"}})
    expect_said({"a.gimg", "--tensor", text}, "--tensor: " + why + kWanted);
  expect_said({"a.gimg", "--tensor", "q=i65[1]"}, "; here also i64 u32 u64 bool c64 e8m0");
  expect_said({"a.gimg", "--codec", "zstd:"}, "'zstd:': its level is no whole number from 1 on");
  expect_said({"a.gimg", "--codec", "zstd:50"}, "--codec: zstd has levels 1 to 22, not 50");
  expect_said({"a.gimg", "--codec", "deflate:4"}, "--codec: deflate has levels 1 to 3, not 4");
  expect_said({"a.gimg", "--codec", "none:1"}, "none has no levels; say none alone");
  expect_said({"a.gimg", "--codec", "lz4:1"}, "--codec: lz4 has no levels");
  expect_said({"a.gimg", "--as", "i8"}, "'i8' is no floating-point type; there are f64, f32, f16");
  expect_said({"a.gimg", "--as", "q"}, "'q' is no floating-point type; there are f64, f32, f16");
  expect_said({"a.gimg", "--split", "2"}, "--split 2: there is only 1 tensor; a partition has");
  expect_said({"sub/a.bin", "a.gimg"}, "tensor 'a.bin' is in a.bin and in sub/a.bin; names of");
  expect_said({"no/a.gimg"}, "no/a.gimg: No such file or directory; make its folder first");
  expect_done({"pack", "a.bin", "a.gimg"});
  for (const char* name : {"back.safetensor", "back.NPY", "weights.v2"}) {
    const Ended ended = done({"image", "extract", "a.gimg", name});
    EXPECT_EQ(ended.status, 1);
    EXPECT_THAT(ended.errors,
                AllOf(IsOneLine(), HasSubstr("; name a file *.safetensors or *.npy")));
    EXPECT_FALSE(fs::exists(path(name)));
    expect_done({"image", "extract", "a.gimg", std::string(name) + "/"});
    expect_done({"image", "extract", "a.gimg", name});  // a folder by now
    EXPECT_EQ(read(std::string(name) + "/a.bin"), "xxxxxxxx");
  }
}

TEST_F(Pack, TheImageIsNoneOfItsFiles) {
  write("a.bin", "bytes");
  fs::create_symlink("a.bin", path("link"));
  for (const char* to : {"a.bin", "link"})
    EXPECT_THAT(done({"pack", "a.bin", to}).errors,
                HasSubstr(": it is one of the files that are to be packed; name another image"));
  EXPECT_EQ(read("a.bin"), "bytes");
}

TEST_F(Pack, WhatIsNoImageIsNotReplaced) {
  write("a.bin", "bytes");
  write("b.bin", "other bytes");
  write("short", "b"), write("empty", "");
  for (const char* to : {"b.bin", "short"})
    EXPECT_THAT(done({"pack", "a.bin", to}).errors,
                HasSubstr(": it is there and is no image; name the image last"));
  EXPECT_EQ(read("b.bin"), "other bytes");
  EXPECT_EQ(read("short"), "b");
  EXPECT_EQ(done({"pack", "a.bin", "empty"}).errors.find("is no image"), std::string::npos);
  EXPECT_EQ(done({"pack", "b.bin", "empty"}).errors.find("is no image"), std::string::npos);
}

TEST_F(Pack, WithoutRoomItSaysSoAndLeavesNothing) {
  write("a.bin", random_bytes(6 << 20));
  Command command = gantry({"pack", "a.bin", "a.gimg"});
  command.argv.insert(command.argv.begin(), {"sh", "-c", "ulimit -f 10000; exec \"$0\" \"$@\""});
  command.cwd = files_.path();
  const Ended ended = run(command);
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors, HasSubstr("a.gimg: byte 4202496: File too large"));
  EXPECT_EQ(files_.entries(), std::vector<std::string>{"a.bin"});
}

}  // namespace
}  // namespace gantry::test
