package docpages

import (
	"archive/zip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const module = "github.com/ibrun/ibrun"

// WriteProxy writes the checkout as a version of our module into dir. With GOPROXY=file://DIR the go command takes it for a
// module proxy, so that go install MODULE@latest works. Other modules come from the module cache of this machine, which can be
// a proxy too: file://GOMODCACHE/cache/download. The version names the contents, because the go command keeps in its build cache
// what it knows of a version.
func WriteProxy(dir, checkout string) error {
	dir = filepath.Join(dir, filepath.FromSlash(module), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(checkout, "go.mod"))
	if err != nil {
		return err
	}
	files, sum, err := moduleFiles(os.DirFS(checkout))
	if err != nil {
		return err
	}
	version := "v0.1.0-c" + sum
	for name, text := range map[string]string{
		"list": version + "\n", version + ".info": fmt.Sprintf("{\"Version\":%q}\n", version), version + ".mod": string(mod),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	out, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		return err
	}
	defer out.Close()
	z := zip.NewWriter(out)
	for _, f := range files {
		w, err := z.CreateHeader(&zip.FileHeader{Name: module + "@" + version + "/" + f.name, Method: zip.Deflate})
		if err == nil {
			_, err = w.Write(f.text)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(z.Close(), out.Close())
}

// moduleFile is a file of the module.
type moduleFile struct {
	name string
	text []byte
}

// moduleFiles returns the files of the module, and a hash of them. Modules below it, the repository and the results of builds
// are not part of it.
func moduleFiles(root fs.FS) (files []moduleFile, sum string, err error) {
	h := sha256.New()
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." {
			if _, err := fs.Stat(root, name+"/go.mod"); err == nil || d.Name() == ".git" || name == "dist" {
				return fs.SkipDir
			}
		}
		if !d.Type().IsRegular() || name == ".git" || filepath.Ext(name) == ".test" {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		files = append(files, moduleFile{name, text})
		fmt.Fprintf(h, "%s %d\n", name, len(text))
		h.Write(text)
		return err
	})
	return files, fmt.Sprintf("%x", h.Sum(nil)[:6]), err
}
