package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/outfile"
	"github.com/ibrun/ibrun/internal/printable"
)

// CheckName returns an error if [Report.Write] does not know the extension of a file name.
func CheckName(name string) error {
	switch filepath.Ext(name) {
	case ".html", ".json":
		return nil
	}
	return fmt.Errorf("%q: the name of a report must end in .html or .json", name)
}

// Write writes the report to a file, as HTML or JSON according to its name. After an error there is no new file, and an old one
// is unchanged.
func (r *Report) Write(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	write := r.HTML
	if filepath.Ext(name) == ".json" {
		write = r.JSON
	}
	return outfile.Write(name, func(f *os.File) error { return write(f) })
}

// JSON writes the whole report.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(printable.NewJSONWriter(w))
	e.SetIndent("", " ")
	return e.Encode(r)
}
