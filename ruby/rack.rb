# Applications with the interface of Rack (https://github.com/rack/rack/blob/main/SPEC.rdoc), of versions 1 to 3.

require "stringio"

module Tsubame
  # `rack.errors`: a stream into the error log, with the details of the request.
  class Errors
    def initialize(connection)
      @connection = connection
    end

    def write(text)
      @connection.write(ERROR, text.to_s.b)
      text.to_s.bytesize
    end

    def puts(*lines)
      text = StringIO.new
      text.puts(*lines)
      write(text.string)
      nil
    end

    def print(*parts)
      write(parts.join)
      nil
    end

    def <<(text)
      write(text)
      self
    end

    def flush
      self
    end
  end

  # `rack.input`: the body of the request. It is received as a whole when the application first asks for some of it, since
  # it can be read again and again; a long one is kept in a file.
  class Input
    MEMORY_MAX = 1 << 17

    def initialize(connection)
      @connection = connection
      @store = nil
    end

    def read(*arguments)
      store.read(*arguments)
    end

    def gets(*arguments)
      store.gets(*arguments)
    end

    def each(&block)
      store.each_line(&block)
      self
    end

    def rewind
      store.rewind
      0
    end

    def size
      store.size
    end

    def close
      @store.close! if @store.respond_to?(:close!)
      @store = StringIO.new("".b)
    end

    private

    def store
      @store ||= received
    end

    def received
      kept = StringIO.new("".b)
      while (piece = @connection.body)
        if kept.is_a?(StringIO) && kept.pos + piece.bytesize > MEMORY_MAX
          require "tempfile"
          file = Tempfile.new("request")
          file.binmode
          file.write(kept.string)
          kept = file
        end
        kept.write(piece)
      end
      kept.rewind
      kept
    end
  end

  # What a body of Rack 3 that can be called writes to.
  class Stream
    def initialize(response, input)
      @response = response
      @input = input
      @closed = false
    end

    def read(*arguments)
      @input.read(*arguments)
    end

    def write(data)
      raise IOError, "closed stream" if @closed
      @response.write(data)
      data.bytesize
    end

    def <<(data)
      write(data)
      self
    end

    def flush
      self
    end

    def close(*)
      @closed = true
    end
    alias close_read close
    alias close_write close

    def closed?
      @closed
    end
  end

  # A response on its way: its head waits for the first piece of the body.
  class Response
    # Responses with these statuses have no body whose length could be told (RFC 9110 section 6.4.1).
    WITHOUT_BODY = [204, 304].freeze

    attr_reader :sent

    def initialize(connection, method)
      @connection = connection
      @method = method
      @sent = false
    end

    def start(status, headers)
      @status = Integer(status)
      raise ArgumentError, "#{@status} is not the status of a final response" unless @status.between?(200, 599)
      head = "Status: #{@status}\r\n".b
      lines = 1
      @length = nil
      headers.each do |name, values|
        # What begins so is for the server, which knows none of it.
        next if name.start_with?("rack.")
        values = values.to_s.split("\n") unless values.is_a?(Array)
        values.each do |value|
          head << name.b << ": " << value.to_s.b << "\r\n"
          lines += 1
        end
        @length = values.first.to_i if name.casecmp?("content-length")
      end
      raise ArgumentError, "a header field contains a line break" if head.count("\n") != lines || head.count("\r") != lines
      @head = head
    end

    # Sends a piece of the body, after the head.
    def write(data)
      data = data.b
      unless @sent
        @sent = true
        data = @head + "\r\n" + data
      end
      @connection.write(OUTPUT, data) unless data.empty?
    end

    # Sends what the application has returned; all but the end.
    def deliver(body, input)
      if body.respond_to?(:to_path) && deliver_file(body.to_path)
        return
      elsif body.respond_to?(:to_ary)
        deliver_whole(body.to_ary.map(&:b).join)
      elsif body.respond_to?(:each)
        body.each { |piece| write(piece) }
        write("")
      else
        body.call(Stream.new(self, input))
        write("")
      end
    end

    private

    def deliver_whole(data)
      tells_length = @length.nil? && @method != "HEAD" && !WITHOUT_BODY.include?(@status)
      @head << "Content-Length: #{data.bytesize}\r\n" if tells_length
      write(data)
    end

    # Sends a file, if the response consists of all of it.
    def deliver_file(path)
      File.open(path, "rb") do |file|
        size = file.size
        return false unless file.stat.file? && @status == 200 && @method != "HEAD" && [nil, size].include?(@length)
        @head << "Content-Length: #{size}\r\n" if @length.nil?
        write("")
        @connection.write_file(file, size)
      end
      true
    rescue SystemCallError
      raise if @sent
      false
    end
  end

  # Answers the requests of this process.
  class Application
    def initialize(file)
      @file = file
    end

    # Loads the application, with its gems. The directory of the process is the application's.
    def load
      if File.exist?("Gemfile")
        ENV["BUNDLE_GEMFILE"] ||= File.expand_path("Gemfile")
        require "bundler/setup"
      end
      require "rack"
      # Rack's Lint takes for granted that it is there.
      require "uri"
      # Up to Rack 2, with options for servers of its own.
      built = Rack::Builder.parse_file(@file)
      @call = built.is_a?(Array) ? built.first : built
      @template = {
        "rack.version" => [1, 3],
        "rack.url_scheme" => "http",
        "rack.multithread" => false,
        "rack.multiprocess" => true,
        "rack.run_once" => false,
        "rack.hijack?" => false,
        "SCRIPT_NAME" => "",
        "PATH_INFO" => "",
        "QUERY_STRING" => "",
      }.freeze
    end

    # Answers a request. Returns whether the process may go on.
    def serve(connection, fields)
      @call || load
      env = @template.dup
      fields.each_slice(2) { |name, value| env[name] = value }
      env["rack.url_scheme"] = "https" if env["REQUEST_SCHEME"] == "https"
      input = env["rack.input"] = Input.new(connection)
      env["rack.errors"] = Errors.new(connection)
      env["rack.response_finished"] = []
      answer(connection, env, input)
      true
    rescue StandardError, ScriptError, SystemStackError, NoMemoryError => problem
      failed(connection, false, problem)
      # What a half loaded application would do, nobody knows.
      !@call.nil?
    end

    private

    def answer(connection, env, input)
      response = Response.new(connection, env["REQUEST_METHOD"])
      problem = nil
      begin
        status, headers, body = @call.call(env)
        begin
          response.start(status, headers)
          response.deliver(body, input)
        ensure
          body.close if body.respond_to?(:close)
        end
        connection.finish("")
      rescue StandardError, ScriptError, SystemStackError, NoMemoryError => problem
        failed(connection, response.sent, problem)
      end
      finished(env, status, headers, problem)
    ensure
      input.close
    end

    # Calls what the application wants to be called after the response (Rack 3).
    def finished(env, status, headers, problem)
      env["rack.response_finished"].reverse_each { |callback| callback.call(env, status, headers, problem) }
    rescue StandardError, ScriptError => problem
      $stderr.puts(problem.full_message(highlight: false))
    end

    # Logs why there is no response, or no whole one.
    def failed(connection, sent, problem)
      connection.write(ERROR, problem.full_message(highlight: false).b)
      what = "the application failed: #{problem.class}"
      if sent
        connection.finish("", status: 1, error: what)
      else
        connection.finish("Status: 500\r\n\r\n", http: 500, **(@call ? {} : { last: 1 }))
      end
    end
  end
end
