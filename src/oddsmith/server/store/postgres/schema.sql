-- The events of any number of experiments, each in one total order of positions. A position is the number of the
-- transaction that wrote it, plus the experiment's shift, times 2^20, plus the place in it. Nothing in `events` is ever
-- changed. Columns are those of the other store: see there, and docs/reference/store-format.md.

create schema oddsmith;

create table oddsmith.format (value text not null);  -- of all tables here

create table oddsmith.experiments (
    number integer generated always as identity primary key,
    name text not null unique,
    shift bigint not null default 0  -- above 0 where events came from a server whose transactions were further on
);

create table oddsmith.meta (
    experiment integer not null references oddsmith.experiments,
    name text not null,
    value text not null,
    primary key (experiment, name)
);

create table oddsmith.events (
    experiment integer not null,     -- no foreign keys here: each row would lock what it refers to
    position bigint not null,
    kind text collate "C" not null,
    id text collate "C" not null,
    key text collate "C" not null,
    value double precision,
    time double precision not null,
    deferred boolean not null,
    seen bigint,
    sender text,
    unit text collate "C",
    turn integer,
    slate text collate "C",
    slot integer,
    body text,
    numbers bytea,
    before bytea,
    primary key (experiment, position)
);

create unique index once on oddsmith.events (experiment, id, kind, key);  -- this is the idempotence
create unique index turns on oddsmith.events (experiment, unit, turn) where unit is not null;
create unique index slots on oddsmith.events (experiment, slate, slot) where slate is not null;
create index changes on oddsmith.events (experiment, position)
    where kind in ('expert added', 'expert retired', 'configuration');

create table oddsmith.contexts (
    experiment integer not null,
    time double precision not null,
    position bigint not null,
    salt bytea,
    features bytea,
    body text,
    primary key (experiment, time, position)
);

create table oddsmith.features (
    experiment integer not null,
    digest text collate "C" not null,
    time double precision not null,
    body text not null,
    primary key (experiment, digest)
);

create index age on oddsmith.features (experiment, time);

create table oddsmith.names (
    experiment integer not null,
    digest text collate "C" not null,
    body text not null,
    primary key (experiment, digest)
);

create table oddsmith.snapshots (
    experiment integer not null,
    position bigint not null,
    fingerprint text not null,
    format text not null,
    time double precision not null,
    digest bytea not null,
    content bytea not null,
    primary key (experiment, position)
);
