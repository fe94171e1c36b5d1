// layers/layers_test.cpp: this tree obeys docs/layers.md, and one that does not is caught.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "rules.hpp"

namespace layers {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

constexpr const char* kPage = R"(
Prose, then

| module | public headers | sees | opens | its tests open |
|---|---|---|---|---|
| `src/base/**` | `types.hpp` | | | |
| `src/sync/**` | | `base` | `base` | |
| `src/memory` | `memory.hpp` | `base` | `base` `sync` | |
| `src/engine` | `engine.hpp` | `base` `memory` | `base` `sync` | |
| `src/engine/inline` | | `base` `memory` `engine` | `base` `sync` `engine` | |
| `src/engine/thread` | | `base` `memory` `engine` | `base` `sync` `engine` | |
| `src/channel` | `channel.hpp` | `base` `memory` `engine` | `base` `sync` | `engine/inline` |
| `src/runtime` | | `base` `channel` | `engine/inline` `engine/thread` | |
| `bench/support/low` | | `base` | | |
| `bench/support/high` | | `base` | `bench/support/low` | |
| `bench/**` | | `base` | `bench/support/high` | |
| `tools/gantry/**` | | `base` `channel` | | |

| outside header | who may |
|---|---|
| `tl/expected.hpp` | `everywhere` |
| `hwloc.h` | `runtime` |
| `CLI/` | `tools/gantry` `bench` |
| `fmt/` | `base` in `headers` |
| `gtest/` | `tests` |
)";

/// A tree in a temporary folder, with the page above.
class Tree : public testing::Test {
 protected:
  Tree() {
    std::string name = testing::TempDir() + "layers-XXXXXX";
    root_ = mkdtemp(name.data());
    add("docs/layers.md", kPage);
  }
  ~Tree() override { fs::remove_all(root_); }

  void add(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  [[nodiscard]] Words check() const { return check_tree(root_.string()); }

 private:
  fs::path root_;
};

std::string lines(std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += "  f();\n";
  return text;
}

TEST(ThisTree, KeepsItsLayers) {
  EXPECT_THAT(check_tree(GANTRY_ROOT), IsEmpty());
}

TEST_F(Tree, AllowsWhatTheTableAllows) {
  add("include/gantry/types.hpp", "#include <tl/expected.hpp>\n#include <vector>\n");
  add("include/gantry/memory.hpp", "#include <gantry/types.hpp>\n");
  add("include/gantry/engine.hpp", "#include <gantry/memory.hpp>\n");
  add("include/gantry/channel.hpp", "#include <gantry/engine.hpp>\n");
  add("src/base/os/fd.hpp",
      "#include <gantry/types.hpp>\n#include <sys/mman.h>\n#include <span>\n");
  add("src/base/error.hpp", "#include <fmt/format.h>\n");
  add("src/sync/spsc/ring.hpp", "#include \"base/os/fd.hpp\"\n");
  add("src/memory/pool.cpp", "#include \"memory/free.hpp\"\n#include \"sync/spsc/ring.hpp\"\n");
  add("src/engine/inline/copy.cpp", "#include \"engine/queue.hpp\"\n");
  add("src/runtime/build.cpp", "#include <hwloc.h>\n#include \"engine/inline/copy.hpp\"\n");
  add("src/channel/rig_test.hpp", "#include <gtest/gtest.h>\n");
  add("src/channel/x_test.cpp", "#include <gtest/gtest.h>\n#include \"engine/inline/copy.hpp\"\n");
  add("tools/gantry/run/plan.hpp", "#include <CLI/CLI.hpp>\n");
  add("tools/gantry/run/run.cpp", "#include <gantry/channel.hpp>\n#include \"plan.hpp\"\n");
  add("bench/support/low/fd.hpp", "#include <gantry/types.hpp>\n");
  add("bench/support/high/run.hpp", "#include <CLI/CLI.hpp>\n#include \"../low/fd.hpp\"\n");
  add("bench/ipc/main.cpp", "#include \"../support/high/run.hpp\"\n");
  EXPECT_THAT(check(), IsEmpty());
}

TEST_F(Tree, CatchesAnIncludeUpwards) {
  add("src/memory/pool.cpp", "\n#include <gantry/channel.hpp>\n");
  EXPECT_THAT(check(), ElementsAre(HasSubstr("src/memory/pool.cpp:2: gantry/channel.hpp")));
}

TEST_F(Tree, CatchesAPrivateHeaderOfAnotherModule) {
  add("src/channel/producer.cpp", "#include \"memory/free_ranges.hpp\"\n");
  EXPECT_THAT(check(), ElementsAre(HasSubstr("private headers of memory")));
}

TEST_F(Tree, CatchesABaseThatUsesSync) {
  add("src/base/clock.hpp", "#include \"sync/spsc/ring.hpp\"\n");
  EXPECT_THAT(check(), ElementsAre(HasSubstr("private headers of sync")));
}

TEST_F(Tree, CatchesModulesThatOpenEachOtherInACircle) {
  std::string page = kPage;
  const std::string row = "| `src/memory` | `memory.hpp` | `base` | `base` `sync`";
  page.replace(page.find(row), row.size(), row + " `channel`");
  const std::string back = "| `channel.hpp` | `base` `memory` `engine` | `base` `sync`";
  page.replace(page.find(back), back.size(), back + " `memory`");
  add("docs/layers.md", page);
  EXPECT_THAT(check(), ElementsAre(HasSubstr("in a circle: channel -> memory -> channel")));
}

TEST_F(Tree, CatchesModulesThatSeeEachOtherInACircle) {
  std::string page = kPage;
  const std::string row = "| `src/memory` | `memory.hpp` | `base`";
  page.replace(page.find(row), row.size(), row + " `engine`");
  add("docs/layers.md", page);
  EXPECT_THAT(check(), ElementsAre(HasSubstr("see each other in a circle: engine -> memory -> e")));
}

TEST_F(Tree, CatchesAFolderOfManyFilesUnlessThePageSaysWhy) {
  for (std::size_t i = 0; i <= kFolderFiles; ++i) {
    add("src/base/" + std::to_string(i) + ".cpp", "");
    if (i < kFolderFiles) add("src/base/" + std::to_string(i) + ".hpp", "");
  }
  EXPECT_THAT(check(), ElementsAre(HasSubstr("src/base: 31 sources;")));
  add("docs/layers.md",
      std::string(kPage) + "\n- `base`: all. It has more than 30 files, since there are many.\n");
  EXPECT_THAT(check(), IsEmpty());
}

TEST_F(Tree, ReadsEveryEndingThatACompilerKnows) {
  for (const char* ending : {"ipp", "inl", "cc", "hh"})
    add(std::string("src/magic/spell.") + ending, "");
  EXPECT_THAT(check(), SizeIs(4));
}

TEST_F(Tree, CatchesABackendThatUsesAnother) {
  add("src/engine/thread/lane.cpp", "#  include \"engine/inline/copy.hpp\"\n");
  EXPECT_THAT(check(), ElementsAre(HasSubstr("private headers of engine/inline")));
}

TEST_F(Tree, CatchesANamedBackendOutsideTheRuntime) {
  add("src/channel/producer.cpp", "#include \"engine/inline/copy.hpp\"\n");
  add("src/engine/pick.cpp", "#include \"engine/thread/lane.hpp\"\n");
  EXPECT_THAT(check(), ElementsAre(StartsWith("src/channel/"), StartsWith("src/engine/")));
}

TEST_F(Tree, CatchesATestsPrivilegeInOtherFiles) {
  add("src/memory/pool.cpp", "#include <gtest/gtest.h>\n");
  EXPECT_THAT(check(), ElementsAre(HasSubstr("gtest/gtest.h")));
}

TEST_F(Tree, CatchesVendorHeadersInHeadersAndInOtherModules) {
  add("src/runtime/probe.hpp", "#include <hwloc.h>\n");
  add("src/memory/pool.cpp", "#include <hwloc.h>\n");
  add("src/memory/region.cpp", "#include <unheard/of.hpp>\n");
  EXPECT_THAT(check(), ElementsAre(HasSubstr("memory may not include this outside header"),
                                   HasSubstr("not in the table"), HasSubstr("into a .cpp file")));
}

TEST_F(Tree, CatchesAPublicHeaderWithMoreThanTheLanguage) {
  add("include/gantry/memory.hpp",
      "#include <hwloc.h>\n#include <sys/mman.h>\n#include \"types.hpp\"\n");
  EXPECT_THAT(check(), ElementsAre(HasSubstr(":1: hwloc.h"), HasSubstr(":2: sys/mman.h"),
                                   HasSubstr(":3: types.hpp")));
}

TEST_F(Tree, LetsAPublicHeaderForCIncludeOfCWhatItNeeds) {
  std::string page = kPage;
  const std::string row = "| `tools/gantry/**` |";
  page.replace(page.find(row), 0, "| `bindings/c` | `gantry.h` | `base` | | |\n");
  add("docs/layers.md", page);
  add("include/gantry/gantry.h", "#include <stddef.h>\n#include <stdint.h>\n");
  add("include/gantry/types.hpp", "#include <cstdint>\n");
  add("bindings/c/errors.cpp", "#include <gantry/gantry.h>\n#include <gantry/types.hpp>\n");
  EXPECT_THAT(check(), IsEmpty());
  add("include/gantry/gantry.h", "#include <stdint.h>\n#include <stdio.h>\n");
  add("include/gantry/types.hpp", "#include <stdint.h>\n");
  add("bindings/c/errors.cpp", "#include <gantry/channel.hpp>\n");
  EXPECT_THAT(check(),
              ElementsAre(HasSubstr("bindings/c may not see channel"),
                          HasSubstr("gantry.h:2: stdio.h"), HasSubstr("types.hpp:1: stdint.h")));
}

TEST_F(Tree, LetsOneProgramIncludeWhatAllShareButNothingOfAnother) {
  std::string page = kPage;
  const std::string row = "| `tools/gantry/**` | | `base` `channel` | | |\n";
  page.insert(page.find(row) + row.size(),
              "| `tools/gantry/net` | | `base` | `tools/gantry` | |\n"
              "| `tools/gantry/look` | | `base` | `tools/gantry` | |\n");
  add("docs/layers.md", page);
  add("tools/gantry/errors.hpp", "");
  add("tools/gantry/look/site.hpp", "");
  add("tools/gantry/net/bridge.cpp", "#include \"errors.hpp\"\n#include \"look/site.hpp\"\n");
  EXPECT_THAT(check(), ElementsAre(HasSubstr("bridge.cpp:2: look/site.hpp: not a file of")));
}

TEST_F(Tree, CatchesAPublicHeaderThatSeesUpwards) {
  add("include/gantry/engine.hpp", "#include <gantry/channel.hpp>\n");
  EXPECT_THAT(check(), ElementsAre(HasSubstr("engine may not see channel")));
}

TEST_F(Tree, CatchesAComponentThatUsesOneThatItDoesNotSee) {
  add("src/CMakeLists.txt",
      "gantry_component(base)\ngantry_component(memory SEES base)\n"
      "gantry_component(engine REGISTERS SEES base LIBRARIES x)\n");
  add("include/gantry/memory.hpp", "");
  add("src/engine/a.cpp", "#include <gantry/types.hpp>\n#include <gantry/memory.hpp>\n");
  EXPECT_THAT(check(),
              ElementsAre(HasSubstr(
                  "a.cpp:2: gantry/memory.hpp: engine does not see the component memory")));
}

TEST_F(Tree, CatchesAToolThatReachesInside) {
  add("src/memory/free.hpp", "");
  add("tools/gantry/top.cpp", "#include \"../../src/memory/free.hpp\"\n");
  add("tools/gantry/ls.cpp", "#include \"memory/free.hpp\"\n");
  EXPECT_THAT(check(), ElementsAre(StartsWith("tools/gantry/ls.cpp:1"),
                                   StartsWith("tools/gantry/top.cpp:1")));
}

TEST_F(Tree, CatchesASubfolderThatOpensWhatItsRowDoesNotName) {
  add("bench/support/low/fd.hpp", "#include \"../high/run.hpp\"\n");
  add("bench/support/high/run.hpp", "");
  add("bench/ipc/main.cpp", "#include \"../support/low/fd.hpp\"\n");
  EXPECT_THAT(check(), ElementsAre(StartsWith("bench/ipc/main.cpp:1"),
                                   StartsWith("bench/support/low/fd.hpp:1")));
}

TEST_F(Tree, CatchesARelativeIncludeBelowSrc) {
  add("src/memory/pool.cpp", "#include \"free.hpp\"\n");
  EXPECT_THAT(check(), ElementsAre(HasSubstr("write the module before the file")));
}

TEST_F(Tree, CatchesAFolderThatTheTableDoesNotKnow) {
  add("src/magic/spell.cpp", "");
  add("src/engine/gpu/lane.cpp", "");
  add("include/gantry/magic.hpp", "");
  EXPECT_THAT(check(), ElementsAre(StartsWith("include/gantry/magic.hpp: no row"),
                                   StartsWith("src/engine/gpu/lane.cpp: no row"),
                                   StartsWith("src/magic/spell.cpp: no row")));
}

TEST_F(Tree, CatchesALongFile) {
  add("src/base/long.hpp", std::string(kFileLines + 1, '\n'));
  add("tests/long.cpp", std::string(kFileLines, '\n'));
  EXPECT_THAT(check(), ElementsAre(HasSubstr("src/base/long.hpp: 701 lines")));
}

TEST_F(Tree, AllowsAnOldNameThatOnlyForwards) {
  const std::string old =
      "#pragma once  // gantry/old/name.hpp: the old name of gantry/types.hpp.\n";
  add("include/gantry/old/name.hpp", old + "#include <gantry/types.hpp>\n");
  EXPECT_THAT(check(), IsEmpty());
  add("include/gantry/old/name.hpp", old + "#include <gantry/types.hpp>\n\nint more();\n");
  EXPECT_THAT(check(), ElementsAre(StartsWith("include/gantry/old/name.hpp: no row")));
}

TEST_F(Tree, AllowsALongerPublicHeader) {
  add("include/gantry/types.hpp", std::string(kPublicHeaderLines, '\n'));
  EXPECT_THAT(check(), IsEmpty());
  add("include/gantry/types.hpp", std::string(kPublicHeaderLines + 1, '\n'));
  EXPECT_THAT(check(), ElementsAre(HasSubstr("types.hpp: 1001 lines")));
}

TEST_F(Tree, CatchesALongFunctionAlsoInTests) {
  add("tests/long_test.cpp", "TEST(A, B) {\n" + lines(kFunctionLines - 1) + "}\n");
  add("src/base/fit.cpp", "void g() {\n" + lines(kFunctionLines - 2) + "}\n");
  EXPECT_THAT(check(), ElementsAre(HasSubstr("tests/long_test.cpp:1: a function of 61 lines")));
}

TEST_F(Tree, CatchesAWordThatWasGivenUp) {
  add("docs/decisions/words.md", "| was | is |\n|---|---|\n| `Gizmo`, thing | Engine |\n");
  add("src/memory/a.cpp", "// Gizmos and things\nclass Engine;\n");
  add("src/memory/b.cpp", "class Engine;\n// of a Gizmo.\n");
  add("tests/c_test.cpp", "Gizmo gizmo;\n");
  EXPECT_THAT(check(), ElementsAre(StartsWith("src/memory/b.cpp:2: Gizmo: "),
                                   StartsWith("tests/c_test.cpp:1: Gizmo: ")));
}

TEST_F(Tree, CatchesAThreadThatIsStartedElsewhere) {
  add("src/base/os/worker_thread.hpp", "return std::thread(std::move(run));\n");
  add("src/base/a.cpp", "std::thread thread_;\nstd::thread t([] {});\nauto f = std::async(g);\n");
  add("src/memory/b.cpp", "std::vector<std::thread> all;\nall.emplace_back([] {});\n");
  add("src/memory/c.cpp", "std::vector<int> all;\nall.emplace_back([] { return 1; }());\n");
  add("src/memory/d_test.cpp", "std::thread t([] {});\n");
  EXPECT_THAT(check(), ElementsAre(StartsWith("src/base/a.cpp:2: a thread"),
                                   StartsWith("src/base/a.cpp:3: a thread"),
                                   StartsWith("src/memory/b.cpp:2: a thread")));
}

TEST_F(Tree, CatchesAPageWithoutTables) {
  add("docs/layers.md", "Nothing here.\n");
  EXPECT_THAT(check(), Contains(HasSubstr("no table begins with")));
}

TEST_F(Tree, CatchesARowThatNamesNoModule) {
  add("docs/layers.md", std::string(kPage) + "| `zmq.h` | `runtim` |\n");
  EXPECT_THAT(check(), Contains(HasSubstr("zmq.h names an unknown module: runtim")));
}

TEST(Functions, AreMeasuredFromSignatureToBrace) {
  const auto found = functions_of(
      "namespace a {\n"
      "class alignas(64) B : public C {\n"
      " public:\n"
      "  B(int x)\n"
      "      : x_(x) {\n"
      "    if (x) { g('{', \"}}\", 1'000); }  // }\n"
      "  }\n"
      "  struct D { int y = 0; };\n"
      "  int z_{0};\n"
      "};\n"
      "#define OPEN {\n"
      "template <class T> requires(sizeof(T) > 1)\n"
      "auto f(T t) -> int { return R\"(})\" ? 1 : 2; }\n"
      "}\n");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].line, 3u);  // the access label begins the statement
  EXPECT_EQ(found[0].lines, 5u);
  EXPECT_EQ(found[1].line, 12u);
  EXPECT_EQ(found[1].lines, 2u);
}

TEST(Includes, AreReadWithBlanksAndWithoutProse) {
  const auto found = includes_of("// #include <no>\n # include <a/b.hpp> // c\n#include\"d\"\n");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].line, 2u);
  EXPECT_FALSE(found[0].quoted);
  EXPECT_EQ(found[0].header, "a/b.hpp");
  EXPECT_TRUE(found[1].quoted);
  EXPECT_EQ(found[1].header, "d");
}

}  // namespace
}  // namespace layers
