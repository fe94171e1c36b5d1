/* Memory that is announced, dropped and let go: AnnouncedSlabs (src/core/channel/fan_out/announced_slabs.cpp),
 * Publisher::announce(), publish() (publisher.cpp), ReceivedSlabs, PinnedSlabs
 * (received_slabs.cpp), ReceivedPayloads::find_bytes(), confirm_heard() (received_payloads.cpp),
 * PoolState::fit_budget() (src/core/memory/pool/pool.cpp).
 *
 * A slab holds one block. A message has one segment or two, each in a slab that there is or in a new
 * one. Empty slabs are dropped when the budget leaves no room for a new one. Of the readers the last
 * may join at any step, leave between two messages (LEAVES) and be killed (DEATH). A reader reads its
 * socket when it misses a slab, or whenever it likes, also with a message in hand. With HOSTILE the
 * producer says once, at any step, that a slab is gone.
 *
 * Properties. A message is handed out only while all its memory is mapped, and stays so until it is
 * released (hand_out(), give_back()). No honest producer looks dishonest: a reader is told of each slab
 * before the first message in it, once, and that it is gone only if it was told of it and has nothing
 * in hand there (find(), hear()). What the producer and the readers that are there have of slabs is
 * never more than the budget (make_slab()). Every slab is let go in the end (the last waits of
 * Producer; invalid end states). Of a hostile producer only the first is claimed.
 */
#ifndef READERS
#define READERS 1
#endif
#ifndef MESSAGES
#define MESSAGES 3
#endif
#ifndef SLABS
#define SLABS 4                 /* ever; numbers are never used twice */
#endif
#define LAST (READERS - 1)
#if READERS > 1
#define PRODUCER_WAKES          /* it never oversleeps: its sleep is seen with one of them */
#endif
#define BUDGET 2                /* a message of two segments needs that many */
#define SENDER 128
#define BIT(i) (1 << (i))
#define QUEUE (2 * SLABS)       /* kMostUnheard: more packets than can come */

#ifdef DEATH
#define MORTAL(dead) unless { dead }
#else
#define MORTAL(dead)
#endif

/* ---- shared memory ---- */
byte sequence[READERS], first_of[READERS];  /* the newest and the oldest message in its ring [P] */
byte segment[2 * (MESSAGES + 1)];           /* slabs, as bits: what the records say; 0: none */
byte released[READERS];                     /* the newest message released [R] */
byte heard[READERS];                        /* packets taken in [K] */
byte content[SLABS];                        /* payload: the message it is of */
bool producer_sleeps, producer_event, rang;
bool end;

/* ---- what the kernel knows ---- */
chan line[READERS] = [QUEUE] of { bool, byte };         /* whether it is gone; the slab */
bool asks, hung_up, dead;                   /* the last reader */

/* ---- the producer's process; under its lock ---- */
byte members = 1, joined = 1;               /* readers, as bits */
byte number;
byte needed[MESSAGES + 1];                  /* who needs the message's memory, as bits */
byte exists, busy, charged;                 /* slabs, as bits: Pool::slab(), their blocks, the budget */
byte next_slab;
byte known[SLABS], leaving[SLABS];          /* Announced: readers as bits */
byte sent[READERS], farewell[READERS * SLABS];          /* Line::sent, farewells: the packet's number */

/* ---- what the properties speak of ---- */
byte has[READERS];                          /* slabs as bits: mapped, or on their way to it */

#define SEGMENTS(n) (segment[2 * (n)] | segment[2 * (n) + 1])

/* ---- slabs go ---- */

inline forget_if_let_go(s) {                /* is_let_go(): the charge goes with it */
  if
  :: !(exists & BIT(s)) && (known[s] | leaving[s]) == 0 -> charged = charged & (255 - BIT(s))
  :: else
  fi
}

inline say_farewell(s, r) {
  if
#ifdef MUTANT_FAREWELL_TO_ALL
  :: members & BIT(r) ->
#else
  :: known[s] & BIT(r) ->
#endif
     line[r]!true, s;
     sent[r]++;
     known[s] = known[s] & (255 - BIT(r));
#ifndef MUTANT_LET_GO_AT_THE_FAREWELL
     leaving[s] = leaving[s] | BIT(r);
     farewell[(r) * SLABS + s] = sent[r]
#endif
  :: else
  fi
}

/* drop_empty_slabs(), then drop_the_gone(). */
inline drop_slab(s) {
  if
#ifdef MUTANT_DROPPED_WITH_BLOCKS_OUT
  :: exists & BIT(s) ->
#else
  :: (exists & BIT(s)) && !(busy & BIT(s)) ->
#endif
     exists = exists & (255 - BIT(s));
#ifdef MUTANT_UNCHARGED_WHEN_DROPPED
     charged = charged & (255 - BIT(s));
#endif
     say_farewell(s, 0);
#if READERS > 1
     say_farewell(s, 1);
#endif
     forget_if_let_go(s)
  :: else
  fi
}

inline drop_empty_slabs() {
  atomic {
    s = 0;
    do
    :: s < SLABS -> drop_slab(s); s++
    :: else -> break
    od;
    s = 0
  }
}

/* ---- looking at the readers ---- */

inline remove(n, bits) {                    /* SlotTable::remove() */
  if
  :: needed[n] != 0 ->
     needed[n] = needed[n] & (255 - (bits));
     if
     :: needed[n] == 0 -> busy = busy & (255 - SEGMENTS(n))
     :: else
     fi
  :: else
  fi
}

inline refresh_one(r) {                     /* reclaim() [R]; AnnouncedSlabs::heard() [K] */
  atomic {
    if
    :: members & BIT(r) ->
       i = 1;
       do
       :: i <= number ->
          if
          :: i <= released[r] -> remove(i, BIT(r))
          :: else
          fi;
          i++
       :: else -> break
       od;
       i = 0;
       do
       :: i < SLABS ->
          if
          :: (leaving[i] & BIT(r)) && heard[r] >= farewell[(r) * SLABS + i] ->
             leaving[i] = leaving[i] & (255 - BIT(r));
             forget_if_let_go(i)
          :: else
          fi;
          i++
       :: else -> break
       od;
       i = 0
    :: else
    fi
  }
}

inline refresh() {
  refresh_one(0);
#if READERS > 1
  refresh_one(1)
#endif
}

inline count_charged() {
  count = 0;
  s = 0;
  do
  :: s < SLABS -> count = count + ((charged >> s) & 1); s++
  :: else -> break
  od;
  s = 0
}

inline look_for_budget() {                  /* fit_budget() */
  refresh();
  drop_empty_slabs();
  atomic { count_charged(); there = count < BUDGET; count = 0 }
}

inline look_whether_all_is_released() {
  refresh();
  there = busy == 0
}

inline look_whether_all_is_let_go() {
  refresh();
  there = charged == 0
}

/* Producer::Impl::wait_until() */
#ifdef PRODUCER_WAKES
#define WAIT_UNTIL(look)    \
  do                        \
  :: look;                  \
     if                     \
     :: there -> break      \
     :: else                \
     fi                     \
  od
#else
#define WAIT_UNTIL(look)    \
  do                                                           \
  :: look;                                                     \
     if                                                        \
     :: there -> break                                         \
     :: else                                                   \
     fi;                                                       \
     atomic { producer_sleeps = true; rang = false };  /* announce() [D1] */ \
     look;                                                     \
     if                                                        \
     :: there -> producer_sleeps = false                       \
     :: else ->                                                \
        (producer_event);                       /* poll() */   \
        producer_sleeps = false;                               \
        producer_event = false                  /* drain() */  \
     fi                                                        \
  od
#endif

/* ---- sending ---- */

inline make_slab() {
  atomic {
    slab = next_slab;
    next_slab++;
    exists = exists | BIT(slab);
    charged = charged | BIT(slab);
    busy = busy | BIT(slab);
    i = exists | has[0];
#if READERS > 1
    i = i | has[1];
#endif
    s = 0;
    do
    :: s < SLABS -> count = count + ((i >> s) & 1); s++
    :: else -> break
    od;
#ifndef HOSTILE
    assert(count <= BUDGET);
#endif
    count = 0;
    i = 0;
    s = 0
  }
}

inline look_for_empty() {
  refresh();
  there = (exists & (255 - busy)) != 0
}

inline take_block() {                       /* the lowest that is empty */
  atomic {
    slab = 0;
    do
    :: !(exists & (255 - busy) & BIT(slab)) -> slab++
    :: else -> break
    od;
    busy = busy | BIT(slab)
  }
}

#define CAN_HAVE(slabs) (next_slab < SLABS || (slabs) != 0)

inline allocate(which) {
  refresh();
  if
  :: exists & (255 - busy) -> take_block()
  :: next_slab < SLABS ->                   /* none is large enough */
     WAIT_UNTIL(look_for_budget());
     make_slab()
  :: !(exists & (255 - busy)) && next_slab == SLABS ->  /* here the model has no more numbers */
     WAIT_UNTIL(look_for_empty());
     take_block()
  fi;
  atomic {
    content[slab] = number;
    segment[2 * number + which] = BIT(slab);
    slab = 0
  }
}

inline tell_one(r, s) {
  if
  :: (SEGMENTS(number) & BIT(s)) && !(known[s] & BIT(r)) ->
     line[r]!false, s;
     sent[r]++;
     known[s] = known[s] | BIT(r);
     has[r] = has[r] | BIT(s)
  :: else
  fi
}

inline tell(r) {                            /* AnnouncedSlabs::tell() */
  s = 0;
  do
  :: s < SLABS -> tell_one(r, s); s++
  :: else -> break
  od;
  s = 0
}

inline announce(r) {
  atomic {
    if
    :: members & BIT(r) -> tell(r)
    :: else
    fi
  }
}

inline give(r) {                            /* publish(): who joined since is told at last */
  atomic {
    if
    :: members & BIT(r) ->
#ifndef MUTANT_JOINED_SINCE_NOT_TOLD
       tell(r);
#endif
       needed[number] = needed[number] | BIT(r);
       first_of[r] = (first_of[r] == 0 -> number : first_of[r]);
       sequence[r] = number
    :: else
    fi
  }
}

proctype Producer() {
  byte s, i, slab, count;
  bool there;
  do
  :: number < MESSAGES && CAN_HAVE(exists) ->
     number++;
     needed[number] = SENDER;
     allocate(0);
     if
     :: CAN_HAVE(exists & (255 - segment[2 * number])) -> allocate(1)
     :: true
     fi;
#ifdef MUTANT_PUBLISHED_BEFORE_TOLD
     atomic {
       if
       :: members & 1 ->
          needed[number] = needed[number] | 1;
          first_of[0] = 1;
          sequence[0] = number
       :: else
       fi
     };
     announce(0);
#else
     announce(0);
#if READERS > 1
     announce(1);
#endif
     give(0);
#endif
#if READERS > 1
     give(1);
#endif
     atomic { remove(number, SENDER) }      /* finish() */
  :: else -> break
  od;
  WAIT_UNTIL(look_whether_all_is_released());
  drop_empty_slabs();                       /* Pool::trim() */
  WAIT_UNTIL(look_whether_all_is_let_go());
  end = true
}

/* ---- the acceptor ---- */

inline left(r) {                            /* and AnnouncedSlabs::remove() */
  members = members & (255 - BIT(r));
  i = 1;
  do
  :: i <= MESSAGES -> remove(i, BIT(r)); i++
  :: else -> break
  od;
  i = 0;
#ifndef MUTANT_LEFT_BUT_STILL_ASKED
  do
  :: i < SLABS ->
     known[i] = known[i] & (255 - BIT(r));
     leaving[i] = leaving[i] & (255 - BIT(r));
     forget_if_let_go(i);
     i++
  :: else -> break
  od;
  i = 0;
#endif
  has[r] = 0
}

/* The last reader comes when it likes, and goes; with one there is nobody else. */
proctype Acceptor() {
  byte i;
end_nobody_comes:
  do
#if READERS > 1
  :: atomic { asks && !(joined & BIT(LAST)) ->
       joined = joined | BIT(LAST);
       members = members | BIT(LAST) }
#endif
  :: atomic { (members & BIT(LAST)) && (hung_up || dead) -> left(LAST) };
#ifndef PRODUCER_WAKES
     producer_event = true
#endif
  od
}

/* ---- a reader ---- */

inline ring_producer() {
#ifdef PRODUCER_WAKES
  skip
#else
  atomic {
    must = producer_sleeps && !rang;        /* [D4] */
    rang = rang || must
  };
  if
  :: atomic { must -> producer_event = true; must = false }
  :: else
  fi
#endif
}

inline unmap() {
  mapped = mapped & (255 - BIT(which));
  has[me] = has[me] & (255 - BIT(which))
}

/* ReceivedSlabs::learn() of one packet. I1: whoever says that a slab is gone that is held, or being
 * looked at, is not believed. */
inline hear() {
  line[me]?is_gone, which;
#ifdef MUTANT_CONFIRMED_BEFORE_UNMAPPED
  heard[me] = heard[me] + 1;
  ring_producer();
#endif
  atomic {
    if
    :: is_gone && ((pinned & BIT(which)) || !(mapped & BIT(which))) ->
#ifdef HOSTILE
       broken = true
#else
       assert(false)
#endif
    :: is_gone && !(pinned & BIT(which)) && (mapped & BIT(which)) -> unmap()
    :: !is_gone -> assert(!(mapped & BIT(which))); mapped = mapped | BIT(which)
    fi;
    is_gone = false;
    which = 0
  };
#ifndef MUTANT_CONFIRMED_BEFORE_UNMAPPED
  heard[me] = heard[me] + 1;                /* confirm_heard() [K] [D3] */
#ifndef MUTANT_CONFIRMED_WITHOUT_RING
  ring_producer()
#endif
#endif
}

/* ReceivedSlabs::find(), then PinnedSlabs::add(). */
inline find(at) {
  do
  :: broken -> break
  :: !broken && (segment[at] & mapped) == segment[at] -> break
  :: !broken && (segment[at] & mapped) != segment[at] ->
#ifdef HOSTILE
     if
     :: atomic { empty(line[me]) -> broken = true }
     :: nempty(line[me]) -> hear()
     fi
#else
     assert(nempty(line[me]));              /* "a message in memory it never sent" */
     hear()
#endif
  od;
#ifndef MUTANT_FOUND_NOT_PINNED
  pinned = pinned | segment[at]
#endif
}

inline look_at_memory() {
  atomic {
    assert((SEGMENTS(in_hand) & mapped) == SEGMENTS(in_hand));
    i = 0;
    do
    :: i < SLABS ->
       assert(!(SEGMENTS(in_hand) & BIT(i)) || content[i] == in_hand);
       i++
    :: else -> break
    od;
    i = 0
  }
}

inline hand_out() {                         /* hold(): HeldSlots takes the pins over */
  atomic {
    in_hand = own;
    pinned = pinned | SEGMENTS(own)
  };
  look_at_memory()
}

inline give_back() {
  look_at_memory();
  atomic { pinned = 0; i = in_hand; in_hand = 0 };
  released[me] = i;                         /* [R] [D3] */
  i = 0;
  ring_producer()
}

proctype Consumer(byte me) {
  byte own, mapped, pinned, in_hand, which, i;
  bool must, is_gone, broken;
  {
    if
    :: me == LAST -> asks = true
    :: else
    fi;
    do
    :: atomic { sequence[me] > own && in_hand == 0 && !broken ->
         own = (own == 0 -> first_of[me] : own + 1) };
       find(2 * own);
       find(2 * own + 1);
       if
       :: !broken -> hand_out()
       :: else
       fi
    :: in_hand != 0 -> give_back()
    :: nempty(line[me]) && !broken -> hear()
    :: in_hand == 0 && (end || broken) -> break
#ifdef LEAVES
    :: in_hand == 0 && me == LAST -> break
#endif
    od;
    atomic {
      mapped = 0;
      hung_up = hung_up || me == LAST
    }
  } MORTAL((dead && me == LAST))
}

proctype Reaper() {
#ifdef DEATH
  if
  :: dead = true
  :: skip
  fi
#else
  skip
#endif
}

proctype Liar() {
#ifdef HOSTILE
  if
  :: line[0]!true, 0
  :: line[0]!true, 1
  fi
#else
  skip
#endif
}

init {
  atomic {
    byte r;
    do
    :: r < READERS -> run Consumer(r); r++
    :: else -> break
    od;
    run Producer();
    run Acceptor();
    run Reaper();
    run Liar()
  }
}
