// Client packs kubectl train for the machines of its users. For each platform, it writes an archive and the SBOM of
// the program. The archive contains the program, its licenses, and the script that kubectl calls for completion. Client
// also writes the checksums of these files, and the manifest for krew. The same input gives the same bytes. In the flag
// -folders, each DIR is a folder with the files that hack/build.sh writes for a platform.
//
//	client -root FOLDER -module cli -version v0.1.0 -folders linux/amd64=DIR,darwin/arm64=DIR -output DIR
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	plugin     = "train"
	program    = "kubectl-" + plugin
	completion = "kubectl_complete-" + plugin
	license    = "LICENSE"
	thirdParty = "THIRD_PARTY_LICENSES"
	repository = "https://tensorstack.dev/jobs"
)

func main() {
	var o options
	flag.StringVar(&o.root, "root", ".", "root of the repository")
	flag.StringVar(&o.module, "module", "", "module of the program")
	flag.StringVar(&o.version, "version", "", "version of the module")
	folders := flag.String("folders", "", "comma-separated folders to pack, as PLATFORM=FOLDER")
	flag.StringVar(&o.output, "output", "", "existing folder to write to")
	flag.Parse()
	o.folders = strings.Split(*folders, ",")
	if err := pack(o); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

type options struct {
	root, module, version, output string
	// folders are the folders to pack, each as PLATFORM=FOLDER.
	folders []string
}

// pack writes the archives and SBOMs of all platforms, the manifest for krew, and the checksums of these files.
func pack(o options) error {
	var platforms []platform
	var checksums strings.Builder
	write := func(name string, content []byte) (sum string, err error) {
		digest := sha256.Sum256(content)
		sum = hex.EncodeToString(digest[:])
		fmt.Fprintf(&checksums, "%s  %s\n", sum, name)
		return sum, os.WriteFile(filepath.Join(o.output, name), content, 0o644)
	}
	for _, f := range o.folders {
		name, folder, _ := strings.Cut(f, "=")
		system, architecture, ok := strings.Cut(name, "/")
		if !ok || folder == "" {
			return fmt.Errorf("%q is not in the form PLATFORM=FOLDER, for example linux/amd64=bin/build/cli", f)
		}
		base := strings.Join([]string{program, o.version, system, architecture}, "_")
		content, err := archive(
			file{license, filepath.Join(folder, license), 0o644},
			file{thirdParty, filepath.Join(folder, thirdParty), 0o644},
			file{program, filepath.Join(folder, program), 0o755},
			file{completion, filepath.Join(o.root, o.module, completion), 0o755},
		)
		if err != nil {
			return fmt.Errorf("packing %s: %w", f, err)
		}
		sum, err := write(base+".tar.gz", content)
		if err != nil {
			return err
		}
		sbom, err := os.ReadFile(filepath.Join(folder, "sbom.cdx.json"))
		if err != nil {
			return err
		}
		if _, err := write(base+".cdx.json", sbom); err != nil {
			return err
		}
		platforms = append(platforms, platform{
			Selector: selector{map[string]string{"os": system, "arch": architecture}},
			URI:      fmt.Sprintf("%s/releases/%s/%s/%s.tar.gz", repository, o.module, o.version, base),
			SHA256:   sum, Bin: program,
			Files: []operation{{license, "."}, {thirdParty, "."}, {program, "."}, {completion, "."}},
		})
	}
	var manifest bytes.Buffer
	encoder := yaml.NewEncoder(&manifest)
	encoder.SetIndent(2)
	if err := encoder.Encode(manifestOf(o.version, platforms)); err != nil {
		return err
	}
	if _, err := write(plugin+".yaml", manifest.Bytes()); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.output, program+"_"+o.version+"_checksums.txt"), []byte(checksums.String()), 0o644)
}

// file is a file to pack: its name in the archive, its path and its permissions.
type file struct {
	name, path string
	mode       int64
}

// packed is the modification time of all files in an archive. If it were before 1970, tar would print warnings.
var packed = time.Date(1980, time.January, 1, 0, 0, 0, 0, time.UTC)

// archive returns a gzip-compressed tar archive of the files. All files have the same modification time. The archive
// contains no other time, no user and no name of this machine.
func archive(files ...file) ([]byte, error) {
	var content bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&content, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	archived := tar.NewWriter(compressed)
	for _, f := range files {
		data, err := os.ReadFile(f.path)
		if err != nil {
			return nil, err
		}
		if err := archived.WriteHeader(&tar.Header{
			Name: f.name, Mode: f.mode, Size: int64(len(data)), ModTime: packed, Format: tar.FormatUSTAR,
		}); err != nil {
			return nil, err
		}
		if _, err := archived.Write(data); err != nil {
			return nil, err
		}
	}
	if err := archived.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return content.Bytes(), nil
}
