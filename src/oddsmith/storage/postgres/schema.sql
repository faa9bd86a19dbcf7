-- The events of any number of experiments, each in one total order of positions. A position is the number of the
-- transaction that wrote it times 2^20, plus the place in it. Nothing in `events` and `decisions` is ever changed.

create schema if not exists oddsmith;

create table if not exists oddsmith.experiments (
    number integer generated always as identity primary key,
    name text not null unique
);

create table if not exists oddsmith.meta (       -- format, first policy, reward rule, what was said about the experiment
    experiment integer not null references oddsmith.experiments,
    name text not null,
    value text not null,
    primary key (experiment, name)
);

create table if not exists oddsmith.events (     -- light lines: what the bookkeeping of rewards needs
    experiment integer not null,                 -- no foreign keys here: each row would lock what it refers to
    position bigint not null,
    kind text not null check (kind in
        ('decision', 'activation', 'reward', 'default', 'correction', 'expert added', 'expert retired')),
    id text collate "C" not null,                -- of the decision, or the expert's name
    key text collate "C" not null,               -- tells parts of a sum, corrections and changes of one expert apart
    value double precision,                      -- reward, default, correction, or an expert's prior share
    time double precision not null,              -- for people and for erasing; the fold never looks at it
    deferred boolean not null,
    seen bigint,                                 -- position of the state a decision was made with
    primary key (experiment, position)
);

create unique index if not exists once on oddsmith.events (experiment, id, kind, key);  -- this is the idempotence

create index if not exists changes on oddsmith.events (experiment, position)
    where kind in ('expert added', 'expert retired');

create table if not exists oddsmith.decisions (  -- all of a decision but its context
    experiment integer not null,
    position bigint not null,
    body text not null,                          -- JSON, and numbers, as in the other store
    numbers bytea not null,
    context boolean not null,                    -- whether it had one
    primary key (experiment, position)
);

create table if not exists oddsmith.contexts (   -- erased after a while; the fold of fixed experts does not need them
    experiment integer not null,
    position bigint not null,
    time double precision not null,
    body text not null,
    primary key (experiment, position)
);

create index if not exists age on oddsmith.contexts (experiment, time);

create table if not exists oddsmith.snapshots (
    experiment integer not null,
    position bigint not null,
    fingerprint text not null,
    format text not null,
    time double precision not null,
    content bytea not null,
    primary key (experiment, position)
);
