// The formats of the Arrow C data interface, and what a tree of nodes must be.

#include <stdarg.h>
#include <stdio.h>

#include "arrow.h"

static ArrowType fixed(uint32_t bits) {
  return (ArrowType){kFixed, 2, 0, 0, bits};
}
static ArrowType integer(uint32_t bits, int is_signed) {
  return (ArrowType){kFixed, 2, 1, is_signed, bits};
}

/// A decimal number up to the end or a comma. -1: it is none, or above 2^31 - 1.
static int64_t number_at(const char* text, const char** end) {
  int64_t value = -1;
  for (; *text >= '0' && *text <= '9'; ++text) {
    value = (value < 0 ? 0 : value * 10) + (*text - '0');
    if (value > INT32_MAX) return -1;
  }
  *end = text;
  return *text == '\0' || *text == ',' ? value : -1;
}

static int decimal_type(const char* format, ArrowType* type) {  // precision,scale[,bits]
  const char* at = format;
  if (number_at(at, &at) < 0 || *at != ',') return -1;
  if (*++at == '-') ++at;
  if (number_at(at, &at) < 0) return -1;
  int64_t bits = 128;
  if (*at == ',') bits = number_at(at + 1, &at);
  if (*at != '\0' || (bits != 32 && bits != 64 && bits != 128 && bits != 256)) return -1;
  *type = fixed((uint32_t)bits);
  return 0;
}

static int time_type(const char* format, ArrowType* type) {
  static const struct {
    const char* name;
    uint32_t bits;
  } kTimes[] = {{"dD", 32}, {"dm", 64}, {"ts", 32}, {"tm", 32}, {"tu", 64}, {"tn", 64}, {"Ds", 64},
                {"Dm", 64}, {"Du", 64}, {"Dn", 64}, {"iM", 32}, {"iD", 64}, {"in", 128}};
  if (format[0] == 's' && format[1] != '\0' && strchr("smun", format[1]) && format[2] == ':') {
    for (const char* zone = format + 3; *zone != '\0'; ++zone)
      if (*zone < ' ' || *zone > '~') return -1;
    *type = fixed(64);
    return 0;
  }
  for (size_t i = 0; i < sizeof kTimes / sizeof *kTimes; ++i) {
    if (strcmp(kTimes[i].name, format) != 0) continue;
    *type = fixed(kTimes[i].bits);
    return 0;
  }
  return -1;
}

static int nested_type(const char* format, ArrowType* type) {
  if (strncmp(format, "w:", 2) == 0) {
    const char* end;
    const int64_t values = number_at(format + 2, &end);
    *type = (ArrowType){kFixedList, 1, 0, 0, (uint32_t)values};
    return values < 0 || *end != '\0' ? -1 : 0;
  }
  if (format[0] == '\0' || format[1] != '\0') return -1;
  switch (format[0]) {
    case 's':
      *type = (ArrowType){kStruct, 1, 0, 0, 0};
      return 0;
    case 'm':
      *type = (ArrowType){kMap, 2, 0, 0, 32};
      return 0;
    case 'l':
    case 'L':
      *type = (ArrowType){kList, 2, 0, 0, format[0] == 'l' ? 32 : 64};
      return 0;
    default:
      return -1;
  }
}

static int letter_type(char letter, ArrowType* type) {
  static const char kIntegers[] = "cCsSiIlL", kFloats[] = "efg";
  const char* const at = strchr(kIntegers, letter);
  if (at != NULL) {
    *type = integer(8u << ((at - kIntegers) / 2), (at - kIntegers) % 2 == 0);
    return 0;
  }
  if (strchr(kFloats, letter) != NULL) {
    *type = fixed(16u << (strchr(kFloats, letter) - kFloats));
    return 0;
  }
  if (letter == 'b') *type = fixed(1);
  if (letter == 'n') *type = (ArrowType){kNothing, 0, 0, 0, 0};
  if (letter == 'u' || letter == 'z') *type = (ArrowType){kVariable, 3, 0, 0, 32};
  if (letter == 'U' || letter == 'Z') *type = (ArrowType){kVariable, 3, 0, 0, 64};
  return strchr("bnuzUZ", letter) == NULL ? -1 : 0;
}

int arrow_type_of(const char* format, ArrowType* type) {
  if (format[0] == '\0') return -1;
  if (format[1] == '\0') return letter_type(format[0], type);
  if (format[0] == '+') return nested_type(format + 1, type);
  if (format[0] == 't') return time_type(format + 1, type);
  if (strncmp(format, "d:", 2) == 0) return decimal_type(format + 2, type);
  if (strncmp(format, "w:", 2) != 0) return -1;
  const char* end;
  const int64_t bytes = number_at(format + 2, &end);
  if (bytes < 0 || bytes > INT32_MAX / 8 || *end != '\0') return -1;
  *type = fixed((uint32_t)bytes * 8);
  return 0;
}

int arrow_refuse(ArrowRefusal* refusal, gantry_code code, const char* hint, const char* why, ...) {
  va_list arguments;
  va_start(arguments, why);
  vsnprintf(refusal->why, sizeof refusal->why, why, arguments);
  va_end(arguments);
  refusal->code = code;
  refusal->hint = hint;
  return -1;
}

const char* arrow_name(const ArrowTree* tree, const ArrowNode* node) {
  return node->said.name == (uint32_t)kArrowNone || tree->text[node->said.name] == '\0'
             ? "(no name)"
             : tree->text + node->said.name;
}

uint64_t arrow_least_bytes(const ArrowNode* node, int index) {
  const uint64_t total = (uint64_t)node->said.length + (uint64_t)node->said.offset;
  if (index == 0) return (total + 7) / 8;  // the validity bitmap
  if (index == 2) return 0;
  if (node->type.layout != kFixed) return total == 0 ? 0 : (total + 1) * (node->type.bits / 8);
  const unsigned __int128 bits = (unsigned __int128)total * node->type.bits;
  return bits > (uint64_t)INT64_MAX ? (uint64_t)INT64_MAX : ((uint64_t)bits + 7) / 8;
}
