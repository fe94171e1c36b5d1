/* Payloads beside their records: places that all readers read, and readers that look at them:
 * Publisher::plan_beside(), try_publish_beside(), look_at_places() (src/core/channel/fan_out/publisher.cpp),
 * BesidePlaces, ConsumerState::oldest_needed(), may_read(), DepartedConsumers, ConsumerSet::cut(), left(),
 * KeptMessages::hand_over(); ReceiveQueue::copy_beside(), look_at_beside(), claim_next(), LookedPlace.
 *
 * READERS get every message. One of them, LAST, may be cut while it lives; with LEAVES it hangs up, also in
 * the middle of a look; with DEATH it dies at any step. When it was the only reader, HEIR comes and gets what
 * it had not taken. With CLAIMS LAST does not block (drop_oldest): it gets what was sent before it came, takes
 * each message before it reads the place, and nothing goes beside records while it is served. A message that
 * finds no place, or no room, goes another way, which is not here.
 *
 * Properties. A place is not written while a reader may read it: what is read is what was sent (read()).
 * A reader that is served never makes the sender go another way for want of a place (plan()).
 * All places come back when LAST has hung up and looks no more, or is dead (the end of Producer).
 */
#ifndef MESSAGES
#define MESSAGES 5
#endif
#ifndef READERS
#define READERS 2
#endif
#ifndef SLOTS
#define SLOTS 1
#endif
#define PLACES (SLOTS + 2)      /* unread ones, one that is looked at, the next: format.hpp */
#define LAST (READERS - 1)
#define HEIR READERS
#define TORN 255
#define NONE 255

#ifdef DEATH
#define MORTAL(dead) unless { dead }
#else
#define MORTAL(dead)
#endif

/* ---- shared memory ---- */
byte published[READERS + 1];    /* newest record in its ring; its message's number [P] */
byte place_of[MESSAGES + 1];    /* what the records say; NONE: the message went another way */
byte content[PLACES];           /* ProducerPage::beside */
byte taken[READERS + 1];        /* [T] */
byte looking[READERS + 1];      /* [Q] */

/* ---- what the kernel knows ---- */
bool shut, hung_up, dead;       /* LAST */

/* ---- the producer's process, under its lock ---- */
byte members = (1 << READERS) - 1;      /* bits */
bool departed, confirmed;       /* LAST */
byte numbers[PLACES];           /* BesidePlaces */
byte seen_taken[READERS + 1];   /* RingWriter::taken_ */
byte newest;                    /* published to LAST as it departed */
byte number;
bool heir_comes, end_of_stream;

#define IS_MEMBER(r) ((members >> (r)) & 1)

inline depart(is_confirmed) {
  members = members & (255 - (1 << LAST));
  newest = published[LAST];
  departed = true;
  confirmed = is_confirmed
}

/* ConsumerSet::left() of the only reader: keep_unread(), and hand_over() to the next. */
inline keep_for_heir() {
#if READERS == 1
  taken[HEIR] = taken[LAST];
  seen_taken[HEIR] = taken[LAST];
  published[HEIR] = number;
  heir_comes = true;
  members = members | (1 << HEIR)
#else
  skip
#endif
}

inline cut() {
  atomic {
    depart(false);
    shut = true
  }
}

/* ---- the acceptor ---- */
proctype Acceptor() {
end_nobody_left:
  do
  :: atomic { IS_MEMBER(LAST) && (hung_up || dead) ->
       seen_taken[LAST] = taken[LAST];
       depart(true);
       keep_for_heir() }
  :: atomic { departed && !confirmed && (hung_up || dead) ->
       seen_taken[LAST] = taken[LAST];          /* DepartedConsumers::confirm() */
#ifdef MUTANT_LOOK_FREED_AT_CONFIRMATION
       newest = 0;
#endif
       confirmed = true }
  od
}

/* ---- the sender ---- */

/* DepartedConsumers::may_read() of the message in place p. */
#ifdef CLAIMS
#define ALL_UNCONFIRMED true
#else
#define ALL_UNCONFIRMED false
#endif
#ifdef MUTANT_CLAIMED_IS_TAKEN
#define MAY_READ_UNREAD(n) ((n) > seen_taken[LAST])
#else
#define MAY_READ_UNREAD(n) ((n) > seen_taken[LAST] || ALL_UNCONFIRMED)
#endif
#ifdef MUTANT_FREED_AT_THE_CUT
#define DEPARTED_READS(n) false
#else
#ifdef MUTANT_UNREAD_FREED_AT_THE_CUT
#define DEPARTED_READS(n) (departed && !dead && (n) != 0 && (n) <= newest && looking[LAST] == (n))
#else
#ifdef MUTANT_ONLY_UNREAD_KEPT
#define DEPARTED_READS(n) (departed && !dead && (n) != 0 && (n) <= newest && \
                           !confirmed && MAY_READ_UNREAD(n))
#else
#define DEPARTED_READS(n) (departed && !dead && (n) != 0 && (n) <= newest && \
                           (looking[LAST] == (n) || (!confirmed && MAY_READ_UNREAD(n))))
#endif
#endif
#endif

inline least(n) {
  if
  :: (n) < needed -> needed = (n)
  :: else
  fi
}

/* ConsumerSet::refresh() and look_at_places(), of one reader. */
inline look_at(r) {
#ifdef MUTANT_LOOKING_READ_FIRST
  looked = looking[r];
  seen = taken[r];
#else
  seen = taken[r];                              /* [T] */
  looked = looking[r];                          /* [Q] */
#endif
  atomic {
    if
    :: IS_MEMBER(r) ->
       seen_taken[r] = seen;
       least(seen + 1);
#ifndef MUTANT_LOOKS_NOT_SEEN
       if
       :: looked != 0 -> least(looked)
       :: else
       fi
#endif
    :: else
    fi;
    seen = 0;
    looked = 0
  }
}

inline look_at_places() {
  needed = number + 1;
  r = 0;
  do
  :: r <= READERS -> look_at(r); r++
  :: else -> r = 0; break
  od
}

#define UNREAD(r) (IS_MEMBER(r) && number - seen_taken[r] >= SLOTS)
#if READERS == 2
#define HAS_ROOM (!UNREAD(0) && !UNREAD(1) && !UNREAD(2))
#else
#define HAS_ROOM (!UNREAD(0) && !UNREAD(1))
#endif
#ifdef CLAIMS
#define TAKES_BESIDE (members != 0 && !IS_MEMBER(LAST))
#else
#define TAKES_BESIDE (members != 0)
#endif

inline find_place() {
  atomic {
    place = next;
    steps = 0;
    do
    :: steps < PLACES && (numbers[place] >= needed || DEPARTED_READS(numbers[place])) ->
       place = (place + 1) % PLACES;
       steps++
    :: else -> break
    od;
    assert(steps < PLACES || departed);         /* those that are served never need all */
    if
    :: steps == PLACES -> place = NONE
    :: else
    fi;
    steps = 0
  }
}

inline perhaps_cut() {
  if
  :: atomic { IS_MEMBER(LAST) -> cut() }
  :: true
  fi
}

inline publish(p) {
  atomic {
    number++;
    place_of[number] = p;
    if
    :: p != NONE -> numbers[p] = number; next = (p + 1) % PLACES
    :: else
    fi;
    r = 0;
    do
    :: r <= READERS ->
       if
       :: IS_MEMBER(r) -> published[r] = number
       :: else
       fi;
       r++
    :: else -> r = 0; break
    od
  }
}

proctype Producer() {
  byte place, next, steps, needed, r, seen, looked;
  do
  :: number < MESSAGES && members != 0 ->
     perhaps_cut();
     look_at_places();
     if
     :: !HAS_ROOM -> skip                       /* await_room(): look again */
     :: HAS_ROOM && TAKES_BESIDE ->
        find_place();
        if
        :: place != NONE ->
           content[place] = TORN;
           content[place] = number + 1;
           perhaps_cut();                       /* its lock is free while it copies */
           if
           :: atomic { TAKES_BESIDE && HAS_ROOM -> publish(place) }
           :: atomic { !(TAKES_BESIDE && HAS_ROOM) -> publish(NONE) }
           fi
        :: place == NONE -> publish(NONE)
        fi;
        place = 0
     :: HAS_ROOM && !TAKES_BESIDE -> publish(NONE)
     fi
  :: number == MESSAGES || members == 0 -> break
  od;
  perhaps_cut();
  end_of_stream = true;
  /* All come back. */
  (departed && (dead || (confirmed && looking[LAST] == 0)));
  atomic {
    r = 0;
    do
    :: r < PLACES -> assert(!DEPARTED_READS(numbers[r])); r++
    :: else -> r = 0; break
    od
  }
}

/* ---- a reader ---- */

inline read(n) {
  assert(place_of[n] == NONE || content[place_of[n]] == n)
}

#ifdef CLAIMS
#define CLAIMS_FIRST (me == LAST)
#else
#define CLAIMS_FIRST false
#endif

proctype Reader(byte me) {
  byte own;
  {
    own = 0;
end_no_heir:
    if
    :: me == HEIR && heir_comes
    :: me != HEIR
    fi;
    own = taken[me];
    do
    :: published[me] > own ->
       if
       :: CLAIMS_FIRST ->                       /* claim_next() */
          taken[me] = own + 1;
          read(own + 1);
          own++
       :: !CLAIMS_FIRST ->                      /* copy_beside() */
          read(own + 1);
          own++;
          taken[me] = own
       :: !CLAIMS_FIRST ->                      /* look_at_beside() */
#ifdef MUTANT_TAKEN_BEFORE_LOOKING
          taken[me] = own + 1;
          looking[me] = own + 1;
#else
          looking[me] = own + 1;                /* [Q] */
          taken[me] = own + 1;                  /* [T] */
#endif
          own++;
          read(own);
#ifdef LEAVES
          if
          :: me == LAST -> hung_up = true       /* the function destroys the consumer */
          :: true
          fi;
#endif
#ifdef MUTANT_ENDED_BEFORE_READ
          looking[me] = 0;
          read(own)
#else
          read(own);
          looking[me] = 0                       /* [Q] */
#endif
       fi;
       if
       :: me == LAST && hung_up -> break
       :: else
       fi
    :: published[me] == own && end_of_stream -> break
    :: published[me] == own && me == LAST && shut -> break
#ifdef MUTANT_CONFIRMED_BEFORE_ITS_RING
    :: me == LAST && shut && !hung_up -> hung_up = true
#endif
#ifdef LEAVES
    :: me == LAST -> break
#endif
    od;
    if
    :: me == LAST -> hung_up = true
    :: else
    fi
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

init {
  atomic {
#ifdef CLAIMS
    byte p;
    do                                          /* what was sent before it came */
    :: p < SLOTS + 1 ->
       number++;
       numbers[p] = number;
       place_of[number] = p;
       content[p] = number;
       published[LAST] = number;
       p++
    :: else -> break
    od;
    seen_taken[0] = number;
    taken[0] = number;
    published[0] = number;
#endif
    byte r;
    do
    :: r <= READERS -> run Reader(r); r++
    :: else -> break
    od;
    run Producer();
    run Acceptor();
    run Reaper()
  }
}
