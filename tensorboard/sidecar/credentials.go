package sidecar

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/ini.v1"
)

// Files of a Secret: either the configuration of s3cmd, or the environment variables of the AWS tools.
const (
	fileS3Cfg        = ".s3cfg"
	fileAccessKey    = "AWS_ACCESS_KEY_ID"
	fileSecretKey    = "AWS_SECRET_ACCESS_KEY" //nolint:gosec // the name of a file
	fileSessionToken = "AWS_SESSION_TOKEN"     //nolint:gosec // the name of a file
	fileEndpoint     = "AWS_ENDPOINT_URL"
	fileRegion       = "AWS_REGION"
)

// credentials are the address and the keys of S3-compatible storage. Errors never contain the keys.
type credentials struct {
	host         string // with the port, unless it is the default port of the scheme
	https        bool
	accessKey    string
	secretKey    string
	sessionToken string
	region       string // empty if the client must detect the region
}

// readCredentials reads a mounted Secret. It is called for each fetch, because the Secret can change.
func readCredentials(folder string) (credentials, error) {
	secret := filepath.Base(folder)
	cfg, err := readOptional(folder, fileS3Cfg)
	if err != nil {
		return credentials{}, err
	}
	if cfg != "" {
		c, err := parseS3Cfg(cfg)
		if err != nil {
			return credentials{}, fmt.Errorf("%s of the Secret %s: %w", fileS3Cfg, secret, err)
		}
		return c, nil
	}
	var c credentials
	var endpoint string
	var missing []string
	for _, f := range []struct {
		name     string
		into     *string
		optional bool
	}{
		{fileAccessKey, &c.accessKey, false},
		{fileSecretKey, &c.secretKey, false},
		{fileEndpoint, &endpoint, false},
		{fileSessionToken, &c.sessionToken, true},
		{fileRegion, &c.region, true},
	} {
		if *f.into, err = readOptional(folder, f.name); err != nil {
			return credentials{}, err
		}
		if *f.into == "" && !f.optional {
			missing = append(missing, f.name)
		}
	}
	switch {
	case len(missing) == 3:
		return credentials{}, fmt.Errorf("the Secret %s is missing, or has neither %s nor %s", secret, fileS3Cfg,
			strings.Join(missing, ", "))
	case len(missing) > 0:
		return credentials{}, fmt.Errorf("the Secret %s lacks %s", secret, strings.Join(missing, ", "))
	}
	if c.host, c.https, err = parseEndpoint(endpoint); err != nil {
		return credentials{}, fmt.Errorf("%s of the Secret %s %w", fileEndpoint, secret, err)
	}
	return c, nil
}

// readOptional returns the content of a file of a Secret. It returns an empty string if the file does not exist.
func readOptional(folder, name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(folder, name)) //nolint:gosec // the configuration sets the folder
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the Secret %s: %w", filepath.Base(folder), err)
	}
	return strings.TrimSpace(string(data)), nil
}

// parseEndpoint parses the URL of an endpoint. Its errors do not contain the endpoint, because the value can be a
// misplaced secret.
func parseEndpoint(endpoint string) (host string, https bool, err error) {
	u, err := url.Parse(endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", false, errors.New("must look like http://<host>:<port> or https://<host>:<port>")
	}
	if u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return "", false, errors.New("must have a host and a port only: no user, path or query")
	}
	return u.Host, u.Scheme == "https", nil
}

// parseS3Cfg parses the configuration of s3cmd by the rules of s3cmd: values are literal, invalid lines are ignored,
// and HTTPS is the default.
func parseS3Cfg(text string) (credentials, error) {
	file, err := ini.LoadSources(ini.LoadOptions{
		IgnoreInlineComment:      true,
		IgnoreContinuation:       true,
		SkipUnrecognizableLines:  true,
		SpaceBeforeInlineComment: true,
	}, []byte(text))
	if err != nil {
		return credentials{}, errors.New("not an INI file") // the original error quotes the file, which can be secret
	}
	get := func(name string) string {
		for _, section := range []string{"default", ini.DefaultSection} {
			if file.Section(section).HasKey(name) {
				return strings.TrimSpace(file.Section(section).Key(name).Value())
			}
		}
		return ""
	}
	c := credentials{
		accessKey: get("access_key"), secretKey: get("secret_key"), sessionToken: get("access_token"), https: true,
	}
	endpoint := get("host_base")
	var missing []string
	for name, value := range map[string]string{
		"access_key": c.accessKey, "secret_key": c.secretKey, "host_base": endpoint,
	} {
		if value == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return credentials{}, fmt.Errorf("lacks %s", strings.Join(missing, ", "))
	}
	scheme := "https://"
	switch strings.ToLower(get("use_https")) {
	case "false", "no", "off", "0":
		scheme = "http://"
	}
	if !strings.Contains(endpoint, "://") {
		endpoint = scheme + endpoint
	}
	if c.host, c.https, err = parseEndpoint(endpoint); err != nil {
		return credentials{}, fmt.Errorf("host_base %w", err)
	}
	// US and EU are names that only s3cmd uses. US is the default that s3cmd writes.
	switch location := get("bucket_location"); location {
	case "US":
	case "EU":
		c.region = "eu-west-1"
	default:
		c.region = location
	}
	return c, nil
}

// hideIn returns an error without the credentials, which servers can include in their error messages.
func (c credentials) hideIn(err error) error {
	return errors.New(describe(err, c.secretKey, c.sessionToken, c.accessKey))
}
