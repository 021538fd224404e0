import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.URL;
import java.net.URLEncoder;
import java.nio.file.AccessDeniedException;
import java.util.EnumSet;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme;
import org.apache.hadoop.util.Progressable;

/**
 * `s3://` of a Spark job, as plain files, of which each access is told to headrace before it happens, if there is a role.
 *
 * headrace judges it as the job's role. It stands for the requests that S3A and EMRFS send: HEAD and GET (GetObject),
 * LIST, PUT, and DELETE; a rename is a copy and a delete. Written for Java 8, without inner classes: one class file.
 */
public class S3OfRole extends ViewFileSystemOverloadScheme {
    private static final int WAIT_MS = 10_000;
    private static final long LONGEST_MS = 60_000;

    private String bucket;
    private URL asks;
    private boolean enforces;

    public S3OfRole() throws IOException {
        super();
    }

    @Override
    public void initialize(URI uri, Configuration conf) throws IOException {
        bucket = uri.getAuthority();
        super.initialize(uri, withBucket(conf));
        String mode = System.getenv("HEADRACE_IAM");
        boolean isAsked = !"off".equals(mode) && !"hdfs".equals(uri.getScheme());
        asks = isAsked ? new URL(System.getenv("AWS_ENDPOINT_URL") + "/_headrace/iam/s3") : null;
        enforces = "enforce".equals(mode);
    }

    /** Return the configuration with a mount of this bucket, which may be newer than the job. */
    private Configuration withBucket(Configuration conf) {
        String mount = "fs.viewfs.mounttable." + bucket + ".linkFallback";
        String folder = conf.get("headrace.s3.folder");
        if (conf.get(mount) != null || folder == null || !new File(URI.create(folder + "/" + bucket)).isDirectory()) {
            return conf;
        }
        Configuration known = new Configuration(conf);
        known.set(mount, folder + "/" + bucket);
        return known;
    }

    // --- reads ---------------------------------------------------------------------------------

    @Override
    public FSDataInputStream open(Path path, int bufferSize) throws IOException {
        ask("open", path, line("GetObject", key(path)));
        return super.open(path, bufferSize);
    }

    @Override
    public FileStatus getFileStatus(Path path) throws IOException {
        FileStatus found;
        try {
            found = super.getFileStatus(path);
        } catch (FileNotFoundException error) {
            // Who may not list is not told that an object is missing.
            ask("getFileStatus", path, line("ListObjectsV2", key(path)));
            throw error;
        }
        String operation = found.isFile() ? "GetObject" : "ListObjectsV2";
        ask("getFileStatus", path, line(operation, key(path)));
        return found;
    }

    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
        ask("listStatus", path, line("ListObjectsV2", key(path)));
        FileStatus[] found = super.listStatus(path);
        if (new Path(path.toUri().getPath()).isRoot()) {
            // Hadoop gives the root's entries our URI, of which it then cannot tell a local file's owner.
            for (int i = 0; i < found.length; i++) {
                found[i] = plain(found[i]);
            }
        }
        return found;
    }

    private static FileStatus plain(FileStatus of) {
        return new FileStatus(
            of.getLen(), of.isDirectory(), of.getReplication(), of.getBlockSize(), of.getModificationTime(),
            of.getAccessTime(), of.isDirectory() ? FsPermission.getDirDefault() : FsPermission.getFileDefault(),
            System.getProperty("user.name"), System.getProperty("user.name"), of.getPath());
    }

    @Override
    public RemoteIterator<LocatedFileStatus> listLocatedStatus(Path path) throws IOException {
        ask("listLocatedStatus", path, line("ListObjectsV2", key(path)));
        return super.listLocatedStatus(path);
    }

    // --- writes --------------------------------------------------------------------------------

    @Override
    public FSDataOutputStream create(
            Path path, FsPermission permission, boolean overwrite, int bufferSize, short replication,
            long blockSize, Progressable progress) throws IOException {
        ask("create", path, line("PutObject", key(path)));
        return super.create(path, permission, overwrite, bufferSize, replication, blockSize, progress);
    }

    @Override
    public FSDataOutputStream createNonRecursive(
            Path path, FsPermission permission, EnumSet<CreateFlag> flags, int bufferSize, short replication,
            long blockSize, Progressable progress) throws IOException {
        ask("create", path, line("PutObject", key(path)));
        return super.createNonRecursive(path, permission, flags, bufferSize, replication, blockSize, progress);
    }

    @Override
    public boolean mkdirs(Path path, FsPermission permission) throws IOException {
        try {
            if (super.getFileStatus(path).isDirectory()) {
                return true;
            }
        } catch (FileNotFoundException error) {
            // A marker is put for it.
            ask("mkdirs", path, line("PutObject", key(path) + "/"));
        }
        return super.mkdirs(path, permission);
    }

    @Override
    public boolean rename(Path from, Path to) throws IOException {
        StringBuilder lines = new StringBuilder();
        try {
            FileStatus target = null;
            try {
                target = super.getFileStatus(to);
            } catch (FileNotFoundException error) {
                lines.append(line("ListObjectsV2", key(to)));
            }
            String base = target != null && target.isDirectory() ? key(to) + "/" + from.getName() : key(to);
            addMove(lines, super.getFileStatus(from), key(from), base);
        } catch (FileNotFoundException error) {
            lines.append(line("ListObjectsV2", key(from)));
        }
        ask("rename", from, lines.toString());
        return super.rename(from, to);
    }

    @Override
    public boolean delete(Path path, boolean recursive) throws IOException {
        StringBuilder lines = new StringBuilder();
        try {
            addDelete(lines, super.getFileStatus(path), key(path));
        } catch (FileNotFoundException error) {
            lines.append(line("ListObjectsV2", key(path)));
        }
        ask("delete", path, lines.toString());
        return super.delete(path, recursive);
    }

    private void addMove(StringBuilder lines, FileStatus from, String key, String to) throws IOException {
        if (from.isFile()) {
            lines.append(line("GetObject", key)).append(line("PutObject", to)).append(line("DeleteObject", key));
            return;
        }
        lines.append(line("ListObjectsV2", key));
        for (FileStatus each : super.listStatus(from.getPath())) {
            String name = each.getPath().getName();
            addMove(lines, each, key + "/" + name, to + "/" + name);
        }
    }

    private void addDelete(StringBuilder lines, FileStatus found, String key) throws IOException {
        if (found.isFile()) {
            lines.append(line("DeleteObject", key));
            return;
        }
        lines.append(line("ListObjectsV2", key));
        for (FileStatus each : super.listStatus(found.getPath())) {
            addDelete(lines, each, key + "/" + each.getPath().getName());
        }
    }

    // --- asking --------------------------------------------------------------------------------

    private static String key(Path path) {
        String text = path.toUri().getPath();
        return text.startsWith("/") ? text.substring(1) : text;
    }

    private String line(String operation, String key) throws IOException {
        return operation + " " + bucket + " " + URLEncoder.encode(key, "UTF-8") + "\n";
    }

    private void ask(String what, Path path, String lines) throws IOException {
        if (asks == null) {
            return;
        }
        long ends = System.currentTimeMillis() + LONGEST_MS;
        while (true) {
            String sentence;
            try {
                sentence = answer(lines);
            } catch (IOException error) {
                if (!enforces) {
                    return;  // The files are there without headrace too; what it does not hear of it does not report.
                }
                if (System.currentTimeMillis() > ends) {
                    throw error;
                }
                pause();
                continue;
            }
            if (sentence != null) {
                throw new AccessDeniedException(
                    path.toString(), null,
                    what + " on " + path + ": software.amazon.awssdk.services.s3.model.S3Exception: " + sentence
                    + " (Service: S3, Status Code: 403):AccessDenied");
            }
            return;
        }
    }

    private static void pause() throws IOException {
        try {
            Thread.sleep(500);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IOException(error);
        }
    }

    /** Return the sentence of a refusal, null when there is none. */
    private String answer(String lines) throws IOException {
        HttpURLConnection connection = (HttpURLConnection) asks.openConnection();
        connection.setConnectTimeout(WAIT_MS);
        connection.setReadTimeout(WAIT_MS);
        connection.setRequestMethod("POST");
        connection.setDoOutput(true);
        connection.setRequestProperty("Content-Type", "text/plain; charset=utf-8");
        connection.setRequestProperty("X-Headrace-Key", System.getenv("AWS_ACCESS_KEY_ID"));
        connection.setRequestProperty("X-Headrace-Token", System.getenv("AWS_SESSION_TOKEN"));
        connection.setRequestProperty("X-Headrace-Region", System.getenv("AWS_REGION"));
        try (OutputStream body = connection.getOutputStream()) {
            body.write(lines.getBytes("UTF-8"));
        }
        int status = connection.getResponseCode();
        String text = text(status < 400 ? connection.getInputStream() : connection.getErrorStream());
        if (status == 403) {
            return text;
        }
        if (status >= 300) {
            throw new IOException("headrace answers " + status + ": " + text);
        }
        return null;
    }

    private static String text(InputStream stream) throws IOException {
        if (stream == null) {
            return "";
        }
        try (InputStream body = stream) {
            ByteArrayOutputStream whole = new ByteArrayOutputStream();
            byte[] buffer = new byte[4096];
            for (int count = body.read(buffer); count >= 0; count = body.read(buffer)) {
                whole.write(buffer, 0, count);
            }
            return whole.toString("UTF-8");
        }
    }
}
