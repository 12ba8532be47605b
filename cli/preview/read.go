// Package preview shows what the job controllers create for the jobs in manifests. It needs no cluster: the manifests
// are validated like by the API server, and the objects are built by the code of the controllers.
package preview

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/yaml"
)

// Document is a manifest of one object, in YAML or JSON.
type Document struct {
	// Source is where the document is, such as "job.yaml" or "job.yaml, document 2".
	Source string
	// Kind, Namespace and Name are those of the object. The namespace and the name can be empty.
	Kind            schema.GroupVersionKind
	Namespace, Name string
	// Content is the text of the document.
	Content []byte
}

// Read returns the documents in files and in the manifests of folders. The path "-" is the standard input. Subfolders
// are read only if recursive is true.
func Read(paths []string, recursive bool, stdin io.Reader) ([]Document, error) {
	var documents []Document
	for _, path := range paths {
		if path == "-" {
			found, err := split("standard input", stdin)
			if err != nil {
				return nil, err
			}
			documents = append(documents, found...)
			continue
		}
		files, err := filesIn(path, recursive)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			found, err := readFile(file)
			if err != nil {
				return nil, err
			}
			documents = append(documents, found...)
		}
	}
	return documents, nil
}

// filesIn returns the path of a file, or the paths of the manifests in a folder.
func filesIn(root string, recursive bool) ([]string, error) {
	var files []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && !recursive:
			return filepath.SkipDir
		case !entry.IsDir() && (path == root || slices.Contains(resource.FileExtensions, filepath.Ext(path))):
			files = append(files, path)
		}
		return nil
	})
	return files, err
}

func readFile(path string) ([]Document, error) {
	file, err := os.Open(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return split(path, file)
}

// split returns the documents in a text. It leaves out documents without content, and returns the items of a List as
// separate documents.
func split(source string, text io.Reader) ([]Document, error) {
	contents, err := contentsOf(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	var documents []Document
	for i, content := range contents {
		from := source
		if len(contents) > 1 {
			from = fmt.Sprintf("%s, document %d", source, i+1)
		}
		found, err := documentsIn(from, content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		documents = append(documents, found...)
	}
	return documents, nil
}

// documentsIn returns the document with the given content, or a document for each item if it is a List.
func documentsIn(source string, content []byte) ([]Document, error) {
	var object unstructured.Unstructured
	if err := yaml.Unmarshal(content, &object.Object); err != nil {
		return nil, err
	}
	if object.GetKind() == "" {
		return nil, errors.New("the object has no kind")
	}
	if object.GetAPIVersion() != "v1" || object.GetKind() != "List" {
		return []Document{{
			Source: source, Kind: object.GroupVersionKind(), Namespace: object.GetNamespace(), Name: object.GetName(),
			Content: content,
		}}, nil
	}
	var documents []Document
	items, _, err := unstructured.NestedSlice(object.Object, "items")
	for i, item := range items {
		from := fmt.Sprintf("%s, item %d", source, i+1)
		content, err := json.Marshal(item)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		found, err := documentsIn(from, content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		documents = append(documents, found...)
	}
	return documents, err
}

// contentsOf returns the documents in a text that have content.
func contentsOf(text io.Reader) ([][]byte, error) {
	buffered, _, isJSON := utilyaml.GuessJSONStream(text, 4096)
	next := utilyaml.NewYAMLReader(bufio.NewReader(buffered)).Read
	if isJSON {
		decoder := json.NewDecoder(buffered)
		next = func() ([]byte, error) {
			var content json.RawMessage
			return content, decoder.Decode(&content)
		}
	}
	var contents [][]byte
	for {
		content, err := next()
		if errors.Is(err, io.EOF) {
			return contents, nil
		}
		if err != nil {
			return nil, err
		}
		asJSON, err := yaml.YAMLToJSON(content)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", len(contents)+1, err)
		}
		if !bytes.Equal(asJSON, []byte("null")) {
			contents = append(contents, content)
		}
	}
}
