// Sbom writes the Go modules in a binary as a CycloneDX 1.6 document. The same binary gives the same bytes, so an image
// that contains the document is reproducible.
//
//	sbom -binary FILE -version VERSION -output FILE.json
package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	binary := flag.String("binary", "", "Go binary to read")
	version := flag.String("version", "", "version of the main module of the binary")
	output := flag.String("output", "", "document to write")
	flag.Parse()
	if err := run(*binary, *version, *output); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(binary, version, output string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("reading the modules of %s: %w", binary, err)
	}
	bom, err := bomOf(info, version)
	if err != nil {
		return fmt.Errorf("listing the modules of %s: %w", binary, err)
	}
	var document bytes.Buffer
	if err := cdx.NewBOMEncoder(&document,
		cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return err
	}
	return os.WriteFile(output, document.Bytes(), 0o644)
}

// bomOf returns the CycloneDX document of a binary. The document has no serial number and no time, because these
// would differ each time.
func bomOf(info *debug.BuildInfo, version string) (*cdx.BOM, error) {
	main, err := component(&debug.Module{Path: info.Main.Path, Version: version})
	if err != nil {
		return nil, err
	}
	main.Type = cdx.ComponentTypeApplication
	main.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}
	standard, err := component(&debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")})
	if err != nil {
		return nil, err
	}
	components := []cdx.Component{standard}
	for _, module := range info.Deps {
		c, err := component(module)
		if err != nil {
			return nil, err
		}
		components = append(components, c)
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	used := make([]string, len(components))
	for i, c := range components {
		used[i] = c.BOMRef
	}
	bom := cdx.NewBOM()
	bom.SerialNumber = ""
	bom.Metadata = &cdx.Metadata{Component: &main}
	bom.Components = &components
	// The binary does not contain the dependencies between its modules, so the document lists all modules as
	// dependencies of the main module.
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &used}}
	return bom, nil
}

// component describes a module, with the path and version that the main module requires. If another module replaces
// it, component describes that other module.
func component(module *debug.Module) (cdx.Component, error) {
	if replaced := module.Replace; replaced != nil && replaced.Version != "" && replaced.Version != "(devel)" {
		module = replaced
	}
	url := "pkg:golang/" + module.Path + "@" + strings.ReplaceAll(module.Version, "+", "%2B")
	c := cdx.Component{
		BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: module.Path, Version: module.Version, PackageURL: url,
	}
	if sum, ok := strings.CutPrefix(module.Sum, "h1:"); ok {
		hash, err := base64.StdEncoding.DecodeString(sum)
		if err != nil {
			return c, fmt.Errorf("decoding the checksum %s of %s: %w", module.Sum, module.Path, err)
		}
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(hash)}}
	}
	return c, nil
}
