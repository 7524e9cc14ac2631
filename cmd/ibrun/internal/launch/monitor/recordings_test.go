package monitor

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/tracemerge"
)

// noise returns bytes that cannot be compressed.
func noise(n int) []byte {
	b, random := make([]byte, n), rand.New(rand.NewPCG(uint64(n), 0))
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// TestSplitRecordings: node 0 receives what ranks have recorded unchanged, in chunks that fit into messages, or nothing if it
// is too large.
func TestSplitRecordings(t *testing.T) {
	ranks := []tracemerge.Rank{
		{Rank: 3, Node: "n1", Trace: noise(2*chunkBytes + 1), Profile: []byte("p")},
		{Rank: 4, Node: "n1"},
		{Rank: 5, Node: "n1", Profile: noise(chunkBytes)},
	}
	var c RecordingSet
	ok := SplitRecordings(ranks, func(rank int, p *protocol.RecordingChunk) {
		if len(p.Data) > chunkBytes {
			t.Errorf("a chunk of %d bytes", len(p.Data))
		}
		if err := c.Add(1, rank, p); err != nil {
			t.Error(err)
		}
	})
	for _, want := range ranks {
		if got, err := c.OfRank(want.Rank, "n1"); !ok || err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("rank %d: %d and %d bytes, %v", want.Rank, len(got.Trace), len(got.Profile), err)
		}
	}
	many := make([]tracemerge.Rank, 5)
	for i := range many {
		many[i] = tracemerge.Rank{Rank: i, Trace: noise(maxNodeBytes / 4)}
	}
	if SplitRecordings(many, func(int, *protocol.RecordingChunk) { t.Error("a chunk of recordings that are too large") }) {
		t.Error("they were not refused")
	}
}

// TestRecordingSetRefuses: too much data of a node, and damaged data, are refused.
func TestRecordingSetRefuses(t *testing.T) {
	var c RecordingSet
	if err := c.Add(1, 0, &protocol.RecordingChunk{Data: []byte("no gzip")}); err != nil {
		t.Fatal(err)
	}
	if r, err := c.OfRank(0, "n1"); err == nil || r.Trace != nil {
		t.Errorf("%d bytes, %v", len(r.Trace), err)
	}
	if err := c.Add(1, 0, &protocol.RecordingChunk{Data: make([]byte, maxNodeBytes)}); err == nil {
		t.Error("too much was accepted")
	}
	if err := c.Add(2, 1, &protocol.RecordingChunk{Data: compress([]byte("x"))[:5]}); err != nil {
		t.Errorf("another node: %v", err)
	}
	if _, err := c.OfRank(1, "n2"); err == nil {
		t.Error("half a stream was accepted")
	}
}

// TestWriteFile: a file is written completely or not at all, and a failure leaves nothing behind.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "t.json")
	full := errors.New("no space left")
	_, err := writeFile(name, nil, func(w io.Writer, _ []tracemerge.Rank) ([]string, error) {
		_, err := w.Write([]byte("half"))
		return nil, errors.Join(err, full)
	})
	if files, errDir := os.ReadDir(dir); !errors.Is(err, full) || errDir != nil || len(files) != 0 {
		t.Errorf("%v; files %v, %v", err, files, errDir)
	}
	notes, err := writeFile(name, nil, func(w io.Writer, _ []tracemerge.Rank) ([]string, error) {
		_, err := w.Write([]byte("whole"))
		return []string{"well"}, err
	})
	text, errRead := os.ReadFile(name)
	if err != nil || errRead != nil || !bytes.Equal(text, []byte("whole")) || len(notes) != 1 {
		t.Errorf("%q, %v, %v", text, err, errRead)
	}
	if got := withSuffix("a.b/job.pb.gz", ".n1"); got != "a.b/job.pb.n1.gz" {
		t.Errorf("suffix: %s", got)
	}
	for file, want := range map[string]string{dir: "is a directory", dir + "/no/t": "no such file", name: ""} {
		err := RecordingFiles{Trace: file}.Check()
		if (err == nil) != (want == "") || err != nil && (exitcode.Of(err) != exitcode.UsageError ||
			!strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
