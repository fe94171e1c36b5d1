#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "output.hpp"
#include "tools/command_line/printable.hpp"

namespace gantry::cli {
namespace {

using enum Table::Align;

Table of_a_channel() {
  Table table({{"CHANNEL", left}, {"BYTES", right}, {"RATE", right}, {"WHY", left}});
  table.add({"frames", "12 MiB", "3.21 GB/s", "nobody reads it"});
  table.add({"a", "1 B", "1 B/s", ""});
  return table;
}

TEST(TableText, IsOneTableWhereItFits) {
  const std::string whole =
      "CHANNEL   BYTES       RATE  WHY\n"
      "frames   12 MiB  3.21 GB/s  nobody reads it\n"
      "a           1 B      1 B/s\n";
  EXPECT_EQ(of_a_channel().text(Table::kUnlimited), whole);
  EXPECT_EQ(of_a_channel().text(43), whole);
}

TEST(TableText, ColumnsWithoutRoomStandBelowBesideTheFirst) {
  EXPECT_EQ(of_a_channel().text(42),
            "CHANNEL   BYTES       RATE\n"
            "frames   12 MiB  3.21 GB/s\n"
            "a           1 B      1 B/s\n"
            "\n"
            "CHANNEL  WHY\n"
            "frames   nobody reads it\n"
            "a\n");
}

TEST(TableText, LongTextIsWrappedInItsColumn) {
  Table table({{"ENGINE", left}, {"WHY", left}, {"N", right}});
  table.add({"dsa", "there is no device of that kind in this machine at all", "1"});
  EXPECT_EQ(table.text(40),
            "ENGINE  WHY                            N\n"
            "dsa     there is no device of that     1\n"
            "        kind in this machine at all\n");
}

TEST(TableText, AWordThatIsTooLongStaysWhole) {
  Table table({{"A", left}, {"WHERE", left}});
  table.add({"x", "/a/path/that/nobody/would/want/to/see/broken in two"});
  EXPECT_EQ(table.text(30),
            "A  WHERE\n"
            "x  /a/path/that/nobody/would/want/to/see/broken\n"
            "   in two\n");
}

// Also of C1, as UTF-8 and as bytes alone; text of any language stays.
TEST(TableText, HasNothingThatATerminalWouldObey) {
  EXPECT_EQ(printable("\x1b[2J\x7f|\xc2\x9b"
                      "31m|\x9b"
                      "31m|a\tb\r\n"),
            "?[2J?|?31m|?31m|a b  ");
  const std::string fine =
      "Gr\xc3\xb6\xc3\x9f"
      "e \xe2\x82\xac \xf0\x9f\x8f\x97 \xc2\xa0|";
  EXPECT_EQ(printable(fine), fine);
  for (const char* const no_character : {"\xc0\x9b", "\xed\xa0", "\xf5\x80", "\xe2\x82", "\xc3"})
    EXPECT_EQ(printable(no_character), std::string(std::string_view(no_character).size(), '?'));
  EXPECT_EQ(printable("\xe0\x82\x9b"), "???");
  Table table({{"NAME"}, {"WHY"}});
  table.add(
      {"\xc2\x9b"
       "1m",
       "\x90"});
  EXPECT_EQ(table.text(Table::kUnlimited), "NAME  WHY\n?1m   ?\n");
}

}  // namespace
}  // namespace gantry::cli
