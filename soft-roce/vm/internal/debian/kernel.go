package debian

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Installed is a kernel in the cache.
type Installed struct {
	// Release is its version, as in 6.1.0-56-amd64.
	Release string
	// Image is the file that boots.
	Image string
	// Modules are the files to load, each after those that it depends on.
	Modules []string
}

// metaPackage depends on the newest kernel of the distribution.
const metaPackage = "linux-image-amd64"

// Kernel returns the newest kernel in the cache directory that has these modules. It downloads a kernel if the cache has none.
// Many processes may call it concurrently, and the cache may be deleted at any time.
func Kernel(ctx context.Context, cache string, modules []string) (*Installed, error) {
	key := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(modules, " "))))[:8]
	if k, err := cached(cache, key); k != nil || err != nil {
		return k, err
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(cache, "download-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	unpacked, err := download(ctx, work)
	if err != nil {
		return nil, err
	}
	kept, release := filepath.Join(work, "kept"), ""
	if release, err = keepFiles(unpacked, kept, modules); err != nil {
		return nil, err
	}
	// If another process was faster, the rename fails and its kernel is used.
	err = os.Rename(kept, filepath.Join(cache, release+"_"+key))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	k, err := cached(cache, key)
	if k == nil && err == nil {
		err = fmt.Errorf("the kernel was removed from %s", cache)
	}
	return k, err
}

// cached returns the newest kernel whose directory name ends in the key, or nil if the cache has none.
func cached(cache, key string) (*Installed, error) {
	dirs, err := filepath.Glob(filepath.Join(cache, "*_"+key))
	if err != nil || len(dirs) == 0 {
		return nil, err
	}
	dir := slices.MaxFunc(dirs, func(a, b string) int { return slices.Compare(numbers(a), numbers(b)) })
	k := &Installed{Release: strings.TrimSuffix(filepath.Base(dir), "_"+key), Image: filepath.Join(dir, "vmlinuz")}
	k.Modules, err = filepath.Glob(filepath.Join(dir, "*.ko"))
	return k, err
}

var digits = regexp.MustCompile(`\d+`)

// numbers returns the numbers in a version, padded so that they can be compared as strings.
func numbers(version string) []string {
	ns := digits.FindAllString(filepath.Base(version), -1)
	for i, n := range ns {
		ns[i] = fmt.Sprintf("%12s", n)
	}
	return ns
}

// download fetches the package and returns the directory that it was unpacked to.
func download(ctx context.Context, work string) (string, error) {
	depends, err := run(ctx, work, "apt-cache", "depends", "--important", metaPackage)
	if err != nil {
		return "", err
	}
	m := regexp.MustCompile(`(?m)^\s*Depends: (linux-image-\S+)$`).FindSubmatch(depends)
	if m == nil {
		return "", fmt.Errorf("apt has no package %s: on Debian run `apt-get update` first; other distributions "+
			"do not have it", metaPackage)
	}
	name := string(m[1])
	if _, err := run(ctx, work, "apt-get", "download", "-q", name); err != nil {
		return "", fmt.Errorf("%w\nif the package was not found, run `apt-get update`", err)
	}
	packages, err := filepath.Glob(filepath.Join(work, name+"_*.deb"))
	if err != nil || len(packages) != 1 {
		return "", fmt.Errorf("apt-get download %s left %q", name, packages)
	}
	to := filepath.Join(work, "unpacked")
	_, err = run(ctx, work, "dpkg", "-x", packages[0], to)
	return to, err
}

// run runs a tool of the distribution and returns its output. Its standard error becomes part of the error.
func run(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stderr = dir, &stderr
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("the kernel comes from Debian's packages, and there is no %s here", name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// keepFiles moves the kernel and the modules into a new directory. The names of the modules sort in the order of loading.
func keepFiles(unpacked, to string, modules []string) (release string, err error) {
	images, err := filepath.Glob(filepath.Join(unpacked, "boot", "vmlinuz-*"))
	if err != nil || len(images) != 1 {
		return "", fmt.Errorf("the kernel package has kernels %q", images)
	}
	release = strings.TrimPrefix(filepath.Base(images[0]), "vmlinuz-")
	files := map[string]string{} // by the name of the module
	err = filepath.WalkDir(unpacked, func(path string, _ fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(filepath.Base(path), ".ko"); ok {
			files[moduleName(name)] = path
		}
		return err
	})
	if err != nil {
		return "", err
	}
	order, err := loadOrder(modules, func(name string) ([]string, error) {
		if files[name] == "" {
			return nil, fmt.Errorf("the kernel %s has no module %s", release, name)
		}
		return dependencies(files[name])
	})
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return "", err
	}
	if err := os.Rename(images[0], filepath.Join(to, "vmlinuz")); err != nil {
		return "", err
	}
	for i, name := range order {
		if err := os.Rename(files[name], filepath.Join(to, fmt.Sprintf("%02d-%s.ko", i, name))); err != nil {
			return "", err
		}
	}
	return release, nil
}
