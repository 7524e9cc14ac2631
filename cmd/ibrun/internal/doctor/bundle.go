package doctor

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/explain"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/outfile"
	"github.com/ibrun/ibrun/hw"
)

// The bounds of a bundle, in bytes before it is compressed. What is longer is cut.
const (
	maxBundle = 48 << 20
	maxMember = 1 << 20
)

// bundleFolder is the folder that all files of a bundle are in.
const bundleFolder = "ibrun-bundle"

// explainedSizes are the sizes of messages that the bundle explains.
const explainedSizes = "8,64K,4M"

// readme is the first file of a bundle.
const readme = `This is the output of "ibrun doctor --bundle": what is needed to find a problem of RDMA or MPI on a machine.

It contains names and addresses of hosts, interfaces and devices. It contains no command lines, no environment variables but
those of environment.txt, no names of users, and none of their files. Look at it before you send it.

"ibrun doctor --input FILE" and "ibrun topo --input FILE" read it.

`

// member is a file of a bundle, with what it is for the list that the user sees. A member of the tree has no description.
type member struct {
	name, about string
	link        string // the target of a link
	data        []byte
}

// bundleName returns the default name of a bundle.
func bundleName(host string, now time.Time) string {
	host = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}, host)
	return "ibrun-bundle-" + host + now.Format("-20060102-150405") + ".tar.gz"
}

// writeBundle writes a bundle of a host, and lists on out what it contains.
func writeBundle(name string, h *Host, env []string, out io.Writer) error {
	members, err := bundleMembers(h, env, time.Now())
	if err != nil {
		return err
	}
	if err := outfile.WriteNew(name, func(f *os.File) error { return writeArchive(f, members) }); err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	tree := 0
	var b strings.Builder
	fmt.Fprintf(&b, "%s contains:\n", name)
	for _, m := range members {
		if m.about == "" {
			tree++
			continue
		}
		fmt.Fprintf(&b, "  %-18s %s\n", m.name, m.about)
	}
	fmt.Fprintf(&b, "  %-18s %d files of the kernel: processors, NUMA nodes, PCI, interfaces, RDMA devices with their counters\n",
		"sys/ proc/", tree)
	b.WriteString("Look at it before you send it: it contains names and addresses of hosts and devices.\n")
	fmt.Fprintf(&b, "tar tzvf %s lists all files.\n", name)
	_, err = io.WriteString(out, b.String())
	return err
}

// bundleMembers returns the files of a bundle, without secrets and within the bounds.
func bundleMembers(h *Host, env []string, now time.Time) ([]member, error) {
	var doctor, asJSON, explained bytes.Buffer
	report := RunChecks(h)
	if err := errors.Join(report.Text(&doctor, true), report.JSON(&asJSON)); err != nil {
		return nil, err
	}
	if code := explain.Main([]string{explainedSizes}, &explained, &explained); code != 0 {
		fmt.Fprintf(&explained, "exit code %d\n", code)
	}
	devices, err := json.MarshalIndent(h.Top.RDMA, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("describe the RDMA devices: %w", err)
	}
	members := []member{
		{name: "README.txt", about: "what this is, and when it was made", data: []byte(readme + now.Format(time.RFC3339) + "\n")},
		{name: "version.txt", about: "version of ibrun and how it was built", data: []byte(h.Version + "\n" + buildText())},
		{name: "doctor.txt", about: "output of ibrun doctor", data: doctor.Bytes()},
		{name: "doctor.json", about: "the same for programs", data: asJSON.Bytes()},
		{name: "explain.txt", about: "output of ibrun explain " + explainedSizes, data: explained.Bytes()},
		{name: "environment.txt", about: "settings of ibrun, Slurm, other launchers and libraries, from a fixed list of variables",
			data: []byte(environmentText(env))},
		{name: "system.txt", about: "kernel, distribution, version of rdma-core, limits, cgroup", data: []byte(h.systemText())},
		{name: "devices.json", about: "RDMA devices: ports, states, addresses, partitions, objects in use", data: devices},
		{name: "network.txt", about: "network interfaces: addresses, MTU, priority flow control", data: []byte(h.networkText())},
		{name: "modules.txt", about: "kernel modules with their versions", data: []byte(h.modulesText())},
	}
	s := newScrubber(env)
	total := 0
	for i := range members {
		m := &members[i]
		m.data = s.scrub(m.data)
		m.data = m.data[:min(len(m.data), maxMember)] // now, since a part of a secret would not be found
		total += len(m.data)
	}
	tree, err := treeMembers(h, s, maxBundle-total)
	return append(members, tree...), err
}

// treeMembers returns the files of sysfs and procfs that describe the machine, at most limit bytes of them.
func treeMembers(h *Host, s *scrubber, limit int) (members []member, err error) {
	var captured bytes.Buffer
	if err := hw.Capture(&captured, h.Root); err != nil {
		return nil, err
	}
	unzipped, err := gzip.NewReader(&captured)
	if err != nil {
		return nil, fmt.Errorf("read the captured machine: %w", err)
	}
	const entryBytes = 1024 // what an entry of an archive needs beside its data
	archive := tar.NewReader(unzipped)
	for total := 0; ; {
		entry, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return members, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the captured machine: %w", err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			return nil, fmt.Errorf("read the captured machine: %w", err)
		}
		m := member{name: strings.TrimSuffix(entry.Name, "/"), link: entry.Linkname, data: data[:min(len(data), maxMember)]}
		if entry.Typeflag == tar.TypeDir || !s.allowFile(&m) {
			continue
		}
		if total += len(m.data) + entryBytes; total > limit {
			return members, nil
		}
		members = append(members, m)
	}
}

// writeArchive writes the members as a compressed archive, without owners.
func writeArchive(w io.Writer, members []member) error {
	zipped := gzip.NewWriter(w)
	archive := tar.NewWriter(zipped)
	for _, m := range members {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: bundleFolder + "/" + m.name, Size: int64(len(m.data)), Mode: 0o644,
			Format: tar.FormatPAX}
		if m.link != "" {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, m.link, 0
		}
		if err := archive.WriteHeader(h); err != nil {
			return fmt.Errorf("write %s: %w", m.name, err)
		}
		if _, err := archive.Write(m.data); err != nil {
			return fmt.Errorf("write %s: %w", m.name, err)
		}
	}
	return errors.Join(archive.Close(), zipped.Close())
}
