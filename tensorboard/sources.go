package tensorboard

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/tensorboard/sidecar"
)

// Where the volumes of a TensorBoard are mounted.
const (
	claimsFolder  = "/claims/"
	secretsFolder = "/secrets/"
)

// The schemes of a fileset URI.
const (
	pvcFileset   = "t9k://pvc/"
	minioFileset = "t9k://minio/"
)

// sources are the places of logs that a TensorBoard shows.
type sources struct {
	All []sidecar.Source
	// Claims and Secrets that they are read from and with, each once.
	Claims, Secrets []string
}

// sourcesOf lists the sources of a spec in its order, each once.
func sourcesOf(spec *v1beta1.TensorBoardSpec) sources {
	s := sources{}
	for _, fileset := range spec.TrainingLogFilesets {
		s.addFileset(string(fileset))
	}
	if spec.LogDir == nil {
		return s
	}
	for _, claim := range spec.LogDir.PVC {
		if len(claim.SubPath) == 0 {
			s.addClaim(claim.Name, "")
		}
		for _, path := range claim.SubPath {
			s.addClaim(claim.Name, string(path))
		}
	}
	if s3 := spec.LogDir.S3; s3 != nil {
		for _, uri := range s3.URI {
			bucket, path, _ := strings.Cut(strings.TrimPrefix(string(uri), "s3://"), "/")
			s.addBucket(s3.SecretRef.Name, bucket, path)
		}
	}
	if http := spec.LogDir.HTTP; http != nil {
		for _, address := range http.URL {
			s.addURL(string(address))
		}
	}
	return s
}

// addFileset adds a fileset, of which the API server has checked the form.
func (s *sources) addFileset(uri string) {
	if rest, ok := strings.CutPrefix(uri, pvcFileset); ok {
		claim, path, _ := strings.Cut(rest, "/")
		s.addClaim(claim, path)
		return
	}
	secret, rest, _ := strings.Cut(strings.TrimPrefix(uri, minioFileset), "/")
	bucket, path, _ := strings.Cut(rest, "/")
	s.addBucket(secret, bucket, path)
}

func (s *sources) addClaim(claim, path string) {
	path = cleaned(path)
	s.Claims = withOne(s.Claims, claim)
	s.add(claim+"/"+path, sidecar.Source{Link: strings.TrimSuffix(claimsFolder+claim+"/"+path, "/")})
}

func (s *sources) addBucket(secret, bucket, path string) {
	path = cleaned(path)
	s.Secrets = withOne(s.Secrets, secret)
	s.add(bucket+"/"+path, sidecar.Source{
		S3: &sidecar.S3Source{Bucket: bucket, Prefix: path, Secret: secretsFolder + secret},
	})
}

func (s *sources) addURL(address string) {
	name := address
	if parsed, err := url.Parse(address); err == nil { // a query may hold a signature
		name = parsed.Host + parsed.Path
	}
	s.add(name, sidecar.Source{HTTP: &sidecar.HTTPSource{URL: address}})
}

// add adds a source unless it is there already, as a run that is named after it.
func (s *sources) add(name string, source sidecar.Source) {
	if slices.ContainsFunc(s.All, func(other sidecar.Source) bool { return same(other, source) }) {
		return
	}
	name = runName(name)
	source.Run = name
	for i := 2; slices.ContainsFunc(s.All, func(other sidecar.Source) bool { return other.Run == source.Run }); i++ {
		source.Run = name + "-" + strconv.Itoa(i)
	}
	s.All = append(s.All, source)
}

// same says that two sources are the same place.
func same(a, b sidecar.Source) bool {
	switch {
	case a.S3 != nil && b.S3 != nil:
		return *a.S3 == *b.S3
	case a.HTTP != nil && b.HTTP != nil:
		return *a.HTTP == *b.HTTP
	default:
		return a.Link != "" && a.Link == b.Link
	}
}

// maxRunName is the longest run name, in bytes: a file name has at most 255, and a number may follow.
const maxRunName = 200

// runName makes one folder's name of a path.
func runName(path string) string {
	name := strings.Map(func(r rune) rune {
		if r == '/' || r < ' ' || r == utf8.RuneError {
			return '-'
		}
		return r
	}, strings.Trim(path, "/"))
	name = strings.TrimLeft(name, ".") // TensorBoard passes over hidden folders, and .. is another's
	if len(name) > maxRunName {
		name = strings.ToValidUTF8(name[:maxRunName], "")
	}
	if name == "" {
		return "logs"
	}
	return name
}

// cleaned drops what of a path means nothing: empty parts and single dots.
func cleaned(path string) string {
	parts := slices.DeleteFunc(strings.Split(path, "/"), func(part string) bool { return part == "" || part == "." })
	return strings.Join(parts, "/")
}

func withOne(list []string, name string) []string {
	if slices.Contains(list, name) {
		return list
	}
	return append(list, name)
}
