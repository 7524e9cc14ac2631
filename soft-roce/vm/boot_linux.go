package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ibrun/ibrun/soft-roce/vm/internal/debian"
	"github.com/ibrun/ibrun/soft-roce/vm/internal/guest"
	"github.com/ibrun/ibrun/soft-roce/vm/internal/qemu"
)

// modules are the kernel modules of a guest, without their dependencies. rxe needs crc32 when a device is created, but the
// module does not depend on it.
var modules = []string{
	"virtio_pci", "virtio_net", "virtio_console", "9pnet_virtio", "9p",
	"crc32_generic", "crc32_pclmul", "rdma_rxe", "ib_uverbs", "rdma_ucm", "ib_umad", "veth", "bonding",
	"sch_netem", "sch_prio", "cls_u32", // our tests lose packets, or those of a kind
	"crc32c_generic", "libcrc32c", // siw, which our tests build, needs them
}

// Limits of the boot time. With hardware virtualisation a guest boots in a second or two; where that does not work, the kernel
// hangs. With emulation it takes four seconds on an idle machine, and must not fail on a busy one.
const (
	bootTimeoutKVM = 20 * time.Second
	bootTimeoutTCG = 3 * time.Minute
)

// cluster has all guests of a run.
type cluster struct {
	nodes   []*node
	kernel  *debian.Installed
	configs []guest.Config
	work    string // directory for images
}

// boot starts the guests, with hardware virtualisation if that works here. It tries this, and caches the result for a day in
// the file accelCache. If the cached result is wrong, the guests start slower and boot corrects it.
func (c *cluster) boot(ctx context.Context, accelCache string, logf func(string, ...any)) error {
	for i, config := range c.configs {
		if err := c.writeImage(i, config); err != nil {
			return fmt.Errorf("write the image of node %d: %w", i, err)
		}
	}
	if mayHaveKVM() && cachedAccel(accelCache) != qemu.TCG {
		err := c.start(ctx, qemu.KVM, bootTimeoutKVM)
		if err == nil {
			return cacheAccel(accelCache, qemu.KVM)
		}
		if ctx.Err() != nil {
			return err
		}
		logf("hardware virtualisation does not work here: %v", err)
		c.kill()
		if err := cacheAccel(accelCache, qemu.TCG); err != nil {
			return err
		}
	}
	return c.start(ctx, qemu.TCG, bootTimeoutTCG)
}

// start starts all guests and blocks until they are up.
func (c *cluster) start(ctx context.Context, accel qemu.Accel, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not up after %v", timeout))
	defer cancel()
	wires := make([]*os.File, len(c.configs))
	cpus, memory := 2, 2048
	if len(wires) == 2 {
		cpus, memory = 1, 1024
		var err error
		if wires[0], wires[1], err = qemu.NewWire(); err != nil {
			return err
		}
		defer wires[0].Close()
		defer wires[1].Close()
	}
	c.nodes = nil
	for i := range c.configs {
		n, err := startNode(i, qemu.Config{
			Accel: accel, Kernel: c.kernel.Image, Initrd: c.image(i), CPUs: cpus, Memory: memory,
			Port: guest.PortName, MountTag: guest.MountTag, Number: i,
		}, wires[i])
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, n)
	}
	for _, n := range c.nodes {
		go n.serve(c.nodes)
	}
	for _, n := range c.nodes {
		if err := n.awaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) kill() {
	for _, n := range c.nodes {
		n.machine.Kill()
		n.session.Close()
	}
	c.nodes = nil
}

func (c *cluster) image(node int) string { return filepath.Join(c.work, fmt.Sprintf("initrd%d", node)) }

// writeImage writes the initrd of a node.
func (c *cluster) writeImage(node int, config guest.Config) error {
	file, err := os.Create(c.image(node))
	if err != nil {
		return err
	}
	defer file.Close()
	w := newInitrd(file)
	add := func(name string, perm uint32, from string) error {
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		return w.file(name, perm, data)
	}
	text, err := config.Encode()
	if err != nil {
		return err
	}
	err = errors.Join(
		w.device("dev/console", 5, 1),
		add(guest.InitFile, 0o755, filepath.Join(config.Bin, "vm")),
		w.file(guest.ConfigFile, 0o644, text))
	for _, m := range c.kernel.Modules {
		err = errors.Join(err, add(filepath.Join(guest.ModuleDir, filepath.Base(m)), 0o644, m))
	}
	return errors.Join(err, w.close(), file.Close())
}

// accelResult is the cached result of the attempt to use hardware virtualisation.
type accelResult struct {
	Accel qemu.Accel
	Boot  string // the host's boot_id: another boot may be another machine
	Time  time.Time
}

// validFor is the lifetime of an accelResult.
const validFor = 24 * time.Hour

// mayHaveKVM reports whether this process may open /dev/kvm.
func mayHaveKVM() bool {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// cachedAccel returns the cached result, or "" if there is no valid one.
func cachedAccel(file string) qemu.Accel {
	var v accelResult
	text, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(text, &v) != nil || v.Boot != bootID() || time.Since(v.Time).Abs() > validFor {
		return ""
	}
	return v.Accel
}

// cacheAccel writes the result to the file, unless it is there already.
func cacheAccel(file string, a qemu.Accel) error {
	if cachedAccel(file) == a {
		return nil
	}
	text, err := json.Marshal(accelResult{Accel: a, Boot: bootID(), Time: time.Now()})
	if err != nil {
		return err
	}
	// The rename is atomic, because other processes may read the file now.
	fresh := fmt.Sprintf("%s.%d", file, os.Getpid())
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, file)
}

// bootID returns an identifier of this boot of the host, or "" if the kernel does not provide it.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
