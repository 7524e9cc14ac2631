package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// CheckName refuses the names of files that Write does not know how to write.
func CheckName(name string) error {
	switch filepath.Ext(name) {
	case ".html", ".json":
		return nil
	}
	return fmt.Errorf("%q: a report is FILE.html or FILE.json", name)
}

// Write writes the report to a file, as HTML or JSON by its name. The file is there whole or not at all.
func (r *Report) Write(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	form := r.HTML
	if filepath.Ext(name) == ".json" {
		form = r.JSON
	}
	temporary, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	err = errors.Join(form(temporary), temporary.Chmod(0o644), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}

// JSON writes all of the report.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}
