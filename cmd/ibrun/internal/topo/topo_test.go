package topo

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/hw/hwtest"
)

const machinesDir = "../../../../hw/testdata/machines/"

// capture writes a machine to a file as ibrun topo --capture does, and returns the file's name.
func capture(t *testing.T, machine string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), machine+".tar.gz")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(hw.Capture(f, hwtest.Tree(t, machinesDir+machine+".txtar")), f.Close()); err != nil {
		t.Fatal(err)
	}
	return name
}

func run(line string, more ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = Main(append(strings.Fields(line), more...), &o, &e)
	return code, o.String(), e.String()
}

const twoSockets = `M  125 GiB  8 cores  16 PUs
  package 0  Example CPU 8-core
    NUMA node 0  62.5 GiB
      L3 30 MiB, L2 2 MiB, L1d 48 KiB, L1i 32 KiB
        0,8=r0   2,10=r0  4,12=r2  6,14=r2
      NIC mlx5_0  0000:13:00.0  port 1: ACTIVE Ethernet 400 Gb/s eth0
      NIC mlx5_1  0000:19:00.0  port 1: ACTIVE Ethernet 400 Gb/s eth1
      GPU card0  0000:14:00.0  NVIDIA H100 80GB HBM3
      GPU card1  0000:15:00.0  NVIDIA H100 80GB HBM3
      NVMe nvme0  0000:19:00.1
  package 1  Example CPU 8-core
    NUMA node 1  62.5 GiB
      L3 30 MiB, L2 2 MiB, L1d 48 KiB, L1i 32 KiB
        1,9=r1   3,11=r1  5,13=r3  7,15=r3
      NIC mlx5_2  0000:83:00.0  port 1: ACTIVE Ethernet 400 Gb/s eth2
      NIC mlx5_3  0000:89:00.0  port 1: ACTIVE Ethernet 400 Gb/s eth3
      GPU card2  0000:84:00.0  NVIDIA H100 80GB HBM3
      GPU card3  0000:85:00.0  NVIDIA H100 80GB HBM3

rank 0 on M bound to package[0][core:0-1], PUs 0,2,8,10, memory of NUMA node 0, mlx5_0:1, card0
rank 1 on M bound to package[1][core:0-1], PUs 1,3,9,11, memory of NUMA node 1, mlx5_2:1, card2
rank 2 on M bound to package[0][core:2-3], PUs 4,6,12,14, memory of NUMA node 0, mlx5_1:1, card1
rank 3 on M bound to package[1][core:2-3], PUs 5,7,13,15, memory of NUMA node 1, mlx5_3:1, card3

        node0   node1   mlx5_0  mlx5_1  mlx5_2  mlx5_3  card0   card1   card2   card3   NUMA  PUs
node0   10      21      PHB     PHB     SYS     SYS     PHB     PHB     SYS     SYS     0     0,2,4,6,8,10,12,14
node1   21      10      SYS     SYS     PHB     PHB     SYS     SYS     PHB     PHB     1     1,3,5,7,9,11,13,15
mlx5_0  PHB     SYS     X       NODE    SYS     SYS     PIX     PIX     SYS     SYS     0     0,2,4,6,8,10,12,14
mlx5_1  PHB     SYS     NODE    X       SYS     SYS     NODE    NODE    SYS     SYS     0     0,2,4,6,8,10,12,14
mlx5_2  SYS     PHB     SYS     SYS     X       NODE    SYS     SYS     PIX     PIX     1     1,3,5,7,9,11,13,15
mlx5_3  SYS     PHB     SYS     SYS     NODE    X       SYS     SYS     NODE    NODE    1     1,3,5,7,9,11,13,15
card0   PHB     SYS     PIX     NODE    SYS     SYS     X       PIX     SYS     SYS     0     0,2,4,6,8,10,12,14
card1   PHB     SYS     PIX     NODE    SYS     SYS     PIX     X       SYS     SYS     0     0,2,4,6,8,10,12,14
card2   SYS     PHB     SYS     SYS     PIX     NODE    SYS     SYS     X       PIX     1     1,3,5,7,9,11,13,15
card3   SYS     PHB     SYS     SYS     PIX     NODE    SYS     SYS     PIX     X       1     1,3,5,7,9,11,13,15
`

func TestTwoSockets(t *testing.T) {
	name := capture(t, "two-sockets")
	code, out, errs := run("-n 4 --map-by numa --input", name)
	if got := strings.ReplaceAll(out, name, "M"); code != 0 || errs != "" || got != twoSockets+legend {
		t.Errorf("code %d, %q, got\n%s\nwant\n%s", code, errs, got, twoSockets+legend)
	}
}

func TestPictures(t *testing.T) {
	for _, c := range []struct{ machine, flags, want string }{
		{"hybrid", "", `        P:0,1  P:2,3  E:4    E:5    E:6    E:7
      no L3`},
		{"container", "", `7.629 GiB  4 cores  4 PUs  usable 2-3
  package 0
    NUMA node 0  reports 1.907 GiB of 7.629 GiB
      (0)  (1)
    NUMA node 1  reports 1.907 GiB of 7.629 GiB
      2  3
`},
		{"container", "-n 4", "rank 3 on M not bound, PUs 2-3, mlx5_0:1\nmore ranks than cores (4 on 2), so none is " +
			"bound to a core\n"},
		{"container", "-n 1 --bind-to core", "      2=r0  3\n"},
		{"container", "--map-by core", "      2=r0  3=r1\n"},
		{"container", "--report-bindings --ppn 2", "      2=r0  3=r1\n"},
		{"dies", "", "  package 1\n    NUMA node 2  976.6 MiB  die 0\n      L3 16 MiB\n        4  5\n    NUMA node 3"},
		{"offline", "", "without cores, near PUs"},
		{"offline", "-n 3", "    NUMA node 2  no known memory\n      0=r0    2,3=r1\n"},
		{"offline", "-n 3", "rank 1 on M bound to package[0][core:1], PUs 2-3\n" +
			"rank 2 on M bound to package[1][core:0], PUs 5, memory of NUMA node 0\n"},
		{"offline", "-n 1 --map-by numa --bind-to node", "PUs 0,2-3,5-7, memory of NUMA node 0\n"},
		{"two-sockets", "-n 2 --map-by nic", "rank 1 on M bound to package[0][core:2-3]"},
	} {
		name := capture(t, c.machine)
		code, out, errs := run(c.flags+" --input", name)
		if code != 0 || errs != "" || !strings.Contains(strings.ReplaceAll(out, name, "M"), c.want) {
			t.Errorf("%s %s: code %d, %q,\n%s\nwant in it\n%s", c.machine, c.flags, code, errs, out, c.want)
		}
	}
}

// The JSON is that of hw.Topology, also for an archive.
func TestJSON(t *testing.T) {
	want, err := hw.Read(hwtest.Tree(t, machinesDir+"two-sockets.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	_, out, errs := run("--json --input", capture(t, "two-sockets"))
	var got hw.Topology
	if err := json.Unmarshal([]byte(out), &got); err != nil || errs != "" {
		t.Fatalf("%v, %q", err, errs)
	}
	if !reflect.DeepEqual(got.PUs, want.PUs) || !reflect.DeepEqual(got.Nodes, want.Nodes) || !reflect.DeepEqual(got.PCI,
		want.PCI) ||
		!reflect.DeepEqual(got.Allowed, want.Allowed) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	var names map[string]any
	if err := json.Unmarshal([]byte(out), &names); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"packages", "dies", "nodes", "caches", "cores", "kinds", "pus", "allowed", "pci", "rdma",
		"netdevs", "gpus", "nvme"} {
		if _, there := names[name]; !there {
			t.Errorf("the JSON has no %s", name)
		}
	}
}

// This machine can be shown and captured, and the capture shows the same parts.
func TestThisMachine(t *testing.T) {
	name := filepath.Join(t.TempDir(), "me.tar.gz")
	if code, out, errs := run("--capture", name); code != 0 || out != "" || errs != "" {
		t.Fatalf("code %d, %q, %q", code, out, errs)
	}
	var live, captured hw.Topology
	for into, line := range map[*hw.Topology][]string{&live: {"--json"}, &captured: {"--json --input", name}} {
		code, out, errs := run(line[0], line[1:]...)
		if err := json.Unmarshal([]byte(out), into); err != nil || code != 0 || errs != "" {
			t.Fatalf("%v: code %d, %v, %q", line, code, err, errs)
		}
	}
	if !reflect.DeepEqual(live.Cores, captured.Cores) || !reflect.DeepEqual(live.Caches,
		captured.Caches) || len(live.Cores) == 0 {
		t.Errorf("cores %+v, captured %+v", live.Cores, captured.Cores)
	}
	if code, out, errs := run(""); code != 0 || !strings.Contains(out, "package") || errs != "" {
		t.Errorf("code %d, %s, %q", code, out, errs)
	}
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	ranks := filepath.Join(dir, "ranks")
	if err := os.WriteFile(ranks, []byte("rank 0=+n0 slot=0\nrank 1=+n0 slots\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line string
		code int
		want string
	}{
		{"eth0", 2, `unexpected argument "eth0"`},
		{"--map-by board", 2, "unknown object"},
		{"--json --svg x", 2, "choose one of"},
		{"--capture x --input y", 2, "choose one of"},
		{"--json -n 2", 2, "node without ranks"},
		{"-n -1", 2, "-n must be from 1"},
		{"-n 99999999", 2, "-n must be from 1"},
		{"--input /nowhere", 1, "no such file"},
		{"--input " + dir, 1, "not a machine captured"},
		{"--capture /nowhere/x", 1, "no such file"},
		{"--rankfile /nowhere", 1, "read the rank file"},
		{"--rankfile " + ranks, 1, ranks + ":2:16: expected = and cores after slot"},
		{"-n 3 --map-by ppr:1:node", 1, "not enough slots"},
	} {
		if code, out, errs := run(c.line); code != c.code || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: code %d, %q, %q; want %d, %q", c.line, code, out, errs, c.code, c.want)
		}
	}
	if code, out, errs := run("-h"); code != 0 || !strings.Contains(out, "--map-by OBJECT") || errs != "" {
		t.Errorf("help: code %d, %q, %q", code, out, errs)
	}
}

// The drawing is XML and contains every core, device and rank, and every component is within its parent.
func TestSVG(t *testing.T) {
	for _, m := range []string{"two-sockets", "dies", "hybrid", "container", "offline"} {
		name := filepath.Join(t.TempDir(), "m.svg")
		input := capture(t, m)
		if code, out, errs := run("-n 2 --map-by core --svg "+name+" --input", input); code != 0 || out+errs != "" {
			t.Fatalf("%s: code %d, %q", m, code, out+errs)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		words := map[string]bool{}
		d := xml.NewDecoder(bytes.NewReader(text))
		for {
			token, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", m, err)
			}
			if c, ok := token.(xml.CharData); ok {
				words[string(c)] = true
			}
		}
		if !words["r0"] || !words["r1"] {
			t.Errorf("%s: the drawing lacks a rank: %v", m, words)
		}
		top, err := hw.Read(hwtest.Tree(t, machinesDir+m+".txtar"))
		if err != nil {
			t.Fatal(err)
		}
		picture := machineComponent(m, top, nil)
		checkDrawn(t, m, picture, words)
		checkLaid(t, m, computeLayout(picture))
	}
}

func checkDrawn(t *testing.T, m string, bx component, words map[string]bool) {
	t.Helper()
	for _, c := range bx.cores {
		if !words[c.label()] {
			t.Errorf("%s: the drawing lacks core %s", m, c.label())
		}
	}
	for _, d := range bx.devices {
		if !words[d] {
			t.Errorf("%s: the drawing lacks %s", m, d)
		}
	}
	for _, in := range bx.children {
		checkDrawn(t, m, in, words)
	}
}

func checkLaid(t *testing.T, m string, d layout) {
	t.Helper()
	if rows := (len(d.cores) + rowCells - 1) / rowCells; margin+min(len(d.cores),
		rowCells)*d.cellWidth > d.w || margin+lineHeight+rows*cellHeight > d.h {
		t.Errorf("%s: the cores of %q exceed its area", m, d.title)
	}
	bottom := d.h - margin - len(d.devices)*(lineHeight+margin/2)
	for i, in := range d.children {
		if in.x < 0 || in.y < lineHeight || in.x+in.w > d.w || in.y+in.h > bottom+margin {
			t.Errorf("%s: %q exceeds the area of %q", m, in.title, d.title)
		}
		for _, other := range d.children[:i] {
			if in.x < other.x+other.w && other.x < in.x+in.w && in.y < other.y+other.h && other.y < in.y+in.h {
				t.Errorf("%s: %q overlaps %q", m, in.title, other.title)
			}
		}
		checkLaid(t, m, in)
	}
}

// Names that the machine reports cannot break the XML.
func TestSVGEscapes(t *testing.T) {
	var b bytes.Buffer
	if err := writeSVG(&b, component{title: `</text><script>"&`, devices: []string{"<\x00>"}}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "<script>") || xml.Unmarshal(b.Bytes(), new(struct{})) != nil {
		t.Errorf("%s", b.String())
	}
}
