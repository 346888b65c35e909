#!/usr/bin/env python3
"""Make the database of this folder: the tables and columns that `nsys export
--type sqlite` documents, with a made-up recording. No program of NVIDIA's made
it. Its session begins 1 ms before the snapshots of ../snapshots do.

    make.py DIR

The same version of SQLite gives the same file.
"""
import os
import sqlite3
import sys

SESSION_NS = 1_700_000_000_000_010_000 - 1_000_000
PROCESS = 4711
THREAD = PROCESS << 24 | 4712
# A name that is longer than a page.
LONG = "void gemm<" + ", ".join(f"tile<{i}, {i}>" for i in range(200)) + ">()"
STRINGS = {1: "gemm", 2: LONG, 3: "cudaLaunchKernel_v7000", 4: "a \"step\"",
           5: "cudaMalloc_v3020", 6: "loader", 7: "cuMemAlloc_v2"}
# An export names each process and thread of the machine, recorded or not.
OTHER = 99 << 24 | 99
IDLE = PROCESS << 24 | 4713

# Columns that say nothing here, and may not be NULL.
KERNEL = dict.fromkeys(
    ["registersPerThread", "gridX", "gridY", "gridZ", "blockX", "blockY",
     "blockZ", "staticSharedMemory", "dynamicSharedMemory",
     "localMemoryPerThread", "localMemoryTotal", "gridId"], 1)

# All columns, in the order of an export of schema 3.16 (Nsight Systems 2024.6).
SCHEMA = """
CREATE TABLE StringIds (
    -- Each text once, by a number (comments are part of an export's schema).

    id INTEGER NOT NULL PRIMARY KEY, -- the number, as others name it
    value TEXT NOT NULL);
CREATE TABLE ThreadNames (
    nameId INTEGER NOT NULL, -- REFERENCES StringIds(id) -- a text's number
    priority INTEGER, globalTid INTEGER);
CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (
    utcEpochNs INTEGER, -- when the session began (ns since 1970)
    utcTime TEXT, localTime TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
    start INTEGER NOT NULL, -- when it began (ns)
    end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, greenContextId INTEGER,
    streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
    demangledName INTEGER NOT NULL, -- REFERENCES StringIds(id) -- "f(int, x)"
    shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER,
    cacheConfig INTEGER, registersPerThread INTEGER NOT NULL,
    gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL,
    blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL,
    staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL,
    localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL,
    gridId INTEGER NOT NULL, sharedMemoryExecuted INTEGER,
    graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (
    start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, greenContextId INTEGER,
    streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
    bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL,
    deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER,
    srcDeviceId INTEGER, srcContextId INTEGER, dstDeviceId INTEGER,
    dstContextId INTEGER, migrationCause INTEGER, graphNodeId INTEGER,
    virtualAddress INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (
    start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, greenContextId INTEGER,
    streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
    value INTEGER NOT NULL, bytes INTEGER NOT NULL, graphNodeId INTEGER,
    memKind INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (
    start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, greenContextId INTEGER,
    streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
    graphId INTEGER NOT NULL, graphExecId INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (
    start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
    globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL,
    returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE NVTX_EVENTS (
    start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL,
    rangeId INTEGER, category INTEGER, color INTEGER, text TEXT,
    globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER,
    uint64Value INTEGER, int64Value INTEGER, doubleValue REAL,
    uint32Value INTEGER, int32Value INTEGER, floatValue REAL,
    jsonTextId INTEGER, jsonText TEXT, binaryData TEXT);
"""


def insert(db, table, rows):
    for row in rows:
        names = ", ".join(row)
        marks = ", ".join("?" * len(row))
        db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})",
                   list(row.values()))


def work(i, device, stream, **own):
    return {"start": 1_000_000 + 1000 * i, "end": 1_000_500 + 1000 * i,
            "deviceId": device, "contextId": 1, "streamId": stream,
            "correlationId": 100 + i, **own}


def main(folder):
    path = os.path.join(folder, "made_up.sqlite")
    if os.path.exists(path):
        os.remove(path)
    db = sqlite3.connect(path)
    db.execute("PRAGMA page_size = 512")
    db.executescript(SCHEMA)
    insert(db, "StringIds",
           [{"id": i, "value": value} for i, value in STRINGS.items()])
    insert(db, "ThreadNames", [{"nameId": 6, "globalTid": thread}
                               for thread in (OTHER, THREAD, IDLE)])
    insert(db, "PROCESSES", [{"globalPid": thread >> 24 << 24,
                              "pid": thread >> 24, "name": name}
                             for thread, name in ((OTHER, "systemd"),
                                                  (THREAD, "/usr/bin/train"))])
    insert(db, "TARGET_INFO_SESSION_START_TIME", [{
        "utcEpochNs": SESSION_NS, "utcTime": "2023-11-14 22:13:19",
        "localTime": "2023-11-14 22:13:19"}])
    insert(db, "CUPTI_ACTIVITY_KIND_KERNEL",
           [work(i, 0, 7 + i % 2, globalPid=PROCESS << 24,
                 demangledName=2 if i == 0 else 1, shortName=1, **KERNEL)
            for i in range(100)])
    insert(db, "CUPTI_ACTIVITY_KIND_MEMCPY",
           [work(100, 1, 7, bytes=4096, copyKind=1),
            work(102, 1, 7, bytes=4096, copyKind=3),
            work(103, 1, 7, bytes=4096, copyKind=11),
            work(104, 1, 7, bytes=4096, copyKind=99)])
    # Graphs are recorded as a whole by default. CUPTI gives 0 for times that it
    # could not measure.
    insert(db, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
           [work(110, 0, 7, globalPid=PROCESS << 24, graphId=3, graphExecId=5),
            {**work(111, 0, 7, graphId=3, graphExecId=5), "start": 0, "end": 0},
            {**work(112, 0, 7, graphId=3, graphExecId=5), "end": 0}])
    insert(db, "CUPTI_ACTIVITY_KIND_MEMSET",
           [work(101, 1, 7, value=0, bytes=5_000_000_000)])
    insert(db, "CUPTI_ACTIVITY_KIND_RUNTIME",
           [{"start": 900_000 + i, "end": 900_001 + i, "eventClass": i // 101,
             "globalTid": THREAD, "correlationId": 100 + i,
             "nameId": 3 if i < 100 else 5 if i < 101 else 7, "returnValue": 0}
            for i in range(102)])
    insert(db, "NVTX_EVENTS", [
        {"start": 0, "end": 2_000_000, "eventType": 59, "textId": 4,
         "globalTid": THREAD},
        {"start": 10, "end": 20, "eventType": 60, "text": "load",
         "globalTid": THREAD},
        {"start": 30, "end": None, "eventType": 34, "text": "mark",
         "globalTid": THREAD},
        {"start": 40, "end": None, "eventType": 75, "text": "domain",
         "globalTid": THREAD}])
    db.commit()
    db.execute("VACUUM")
    db.close()


if __name__ == "__main__":
    main(sys.argv[1])
