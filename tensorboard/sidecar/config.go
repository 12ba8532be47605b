// Package sidecar is the sidecar in the pod of a TensorBoard. It collects the logs from all sources in one folder.
// All requests to TensorBoard go through the sidecar, so that it can report how long TensorBoard has been idle.
package sidecar

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Default files, folders and ports of the sidecar.
const (
	// ConfigFile is the file with the Config, as JSON.
	ConfigFile = "/etc/tensorboard-sidecar/config.json"
	// LogsFolder is the folder of logs that TensorBoard shows. Only the sidecar writes to it.
	LogsFolder = "/logs"
	// Port is the port at which the sidecar serves TensorBoard to users.
	Port = 6006
	// TensorBoardPort is the port of TensorBoard on the loopback interface.
	TensorBoardPort = 6007
	// HealthPort is the port at which the sidecar serves HealthPath, ReadyPath and StatusPath.
	HealthPort = 8080
)

// Config is the configuration of the sidecar.
type Config struct {
	// PathPrefix is the path below which TensorBoard serves, without a slash at the end. Empty means the root.
	PathPrefix string `json:"pathPrefix,omitempty"`
	// Sources are the sources of the logs.
	Sources []Source `json:"sources"`
}

// Source is one source of logs. Exactly one of Link, S3 and HTTP is set.
type Source struct {
	// Run is the name of the source's folder in the folder of logs. The names of its runs in TensorBoard begin with this
	// name.
	Run string `json:"run"`
	// Link is the absolute path of a folder that is mounted into the container of TensorBoard. It need not be mounted into
	// the sidecar.
	Link string `json:"link,omitempty"`
	// S3 is a folder in S3-compatible storage.
	S3 *S3Source `json:"s3,omitempty"`
	// HTTP is an event file on an HTTP server.
	HTTP *HTTPSource `json:"http,omitempty"`
}

// S3Source is a folder in S3-compatible storage.
type S3Source struct {
	// Bucket is the bucket of the folder.
	Bucket string `json:"bucket"`
	// Prefix is the path of the folder in the bucket. Empty means the whole bucket.
	Prefix string `json:"prefix,omitempty"`
	// Secret is the folder into which the Secret with the credentials is mounted. The Secret can be created, changed and
	// deleted at any time.
	Secret string `json:"secret"`
}

// HTTPSource is an event file on an HTTP server.
type HTTPSource struct {
	// URL is the URL of the file. Its query can contain a signature, so the query is never shown.
	URL string `json:"url"`
}

// String returns the address of the source without parts that can be secret.
func (s Source) String() string {
	switch {
	case s.S3 != nil:
		return "s3://" + s.S3.Bucket + "/" + s.S3.Prefix
	case s.HTTP != nil:
		u, err := url.Parse(s.HTTP.URL)
		if err != nil {
			return "an HTTP source"
		}
		return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
	default:
		return s.Link
	}
}

// ReadConfig reads and validates a Config.
func ReadConfig(file string) (Config, error) {
	data, err := os.ReadFile(file) //nolint:gosec // a flag sets the path of the file
	if err != nil {
		return Config{}, fmt.Errorf("reading the configuration: %w", err)
	}
	var c Config
	if err := json.Unmarshal(data, &c); err != nil {
		return Config{}, fmt.Errorf("reading the configuration: %s: %w", file, err)
	}
	if err := c.validate(); err != nil {
		return Config{}, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

func (c Config) validate() error {
	if c.PathPrefix != "" && (!strings.HasPrefix(c.PathPrefix, "/") || strings.HasSuffix(c.PathPrefix, "/")) {
		return fmt.Errorf("pathPrefix must begin with a slash and not end with one, got %q", c.PathPrefix)
	}
	runs := map[string]bool{}
	for i, s := range c.Sources {
		if err := s.validate(); err != nil {
			return fmt.Errorf("sources[%d]: %w", i, err)
		}
		if runs[s.Run] {
			return fmt.Errorf("sources[%d]: another source also has run %q: each source needs a different run", i, s.Run)
		}
		runs[s.Run] = true
	}
	return nil
}

func (s Source) validate() error {
	if s.Run == "" || strings.HasPrefix(s.Run, ".") || strings.ContainsAny(s.Run, "/\x00") || len(s.Run) > maxName {
		return fmt.Errorf("run must be the name of a folder that is not hidden, of at most %d bytes, got %q", maxName, s.Run)
	}
	kinds := 0
	var err error
	if s.Link != "" {
		kinds++
		if !filepath.IsAbs(s.Link) {
			err = fmt.Errorf("link must be an absolute path, got %q", s.Link)
		}
	}
	if s.S3 != nil {
		kinds++
		if s.S3.Bucket == "" || s.S3.Secret == "" {
			err = errors.New("s3 needs bucket and secret")
		}
	}
	if s.HTTP != nil {
		kinds++
		err = s.HTTP.validate()
	}
	if kinds != 1 {
		return errors.New("exactly one of link, s3 and http must be set")
	}
	return err
}

// validate returns errors without the URL, because the URL can contain credentials.
func (s HTTPSource) validate() error {
	u, err := url.Parse(s.URL)
	switch {
	case err != nil:
		return errors.New("http.url is not a URL")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return errors.New("http.url must begin with http://<host>/ or https://<host>/")
	case u.User != nil:
		return errors.New("http.url must not have a user name or password, because URLs are not secret")
	}
	return nil
}
